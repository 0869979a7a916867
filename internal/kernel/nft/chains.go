package nft

// BaseChain is the outside of a chain that the kernel calls at a hook, whoever made it.
type BaseChain struct {
	Family       Family
	Table, Chain string
	Drop         bool // the policy: what no rule decides is dropped
}
