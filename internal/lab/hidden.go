package lab

// Hidden lists the commands that RunHidden knows. They are part of no interface: a podway only ever calls itself.
var Hidden = []string{"lab-supervisor", "lab-node-boot", "lab-node-init"}
