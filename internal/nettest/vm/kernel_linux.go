package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// EnvKernel names a folder with an unpacked kernel package, instead of the one that hack/vm-kernel.sh fetched.
const EnvKernel = "PODWAY_VM_KERNEL"

// Kernel is the folder of the kernel to boot. The error wraps errors.ErrUnsupported and says how to get what is missing.
func Kernel() (string, error) {
	if runtime.GOARCH != "amd64" {
		return "", missing("a machine of another kind than amd64 has no kernel for it")
	}
	if _, err := exec.LookPath(qemu); err != nil {
		return "", missing(qemu + " is not installed")
	}
	if k := os.Getenv(EnvKernel); k != "" {
		return k, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", missing(err.Error())
	}
	dirs, err := filepath.Glob(filepath.Join(cache, "podway/vm/*/boot"))
	if err != nil || len(dirs) == 0 {
		return "", missing("no kernel in " + filepath.Join(cache, "podway/vm"))
	}
	return filepath.Dir(dirs[len(dirs)-1]), nil
}

func missing(what string) error {
	return fmt.Errorf("vm: %s: %w (on Debian: hack/deps.sh tests; elsewhere install QEMU and set %s to a folder with boot/vmlinuz-* and lib/modules)",
		what, errors.ErrUnsupported, EnvKernel)
}
