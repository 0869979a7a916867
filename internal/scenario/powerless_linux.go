package scenario

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Numbers of linux/capability.h, linux/prctl.h and linux/securebits.h.
const (
	capVersion       = 0x20080522
	capNetAdmin      = 12
	capSysAdmin      = 21
	capBPF           = 39
	prSetSecurebits  = 28
	securebitsNoRoot = 1
)

type capHeader struct {
	version uint32
	pid     int32
}

type capData [2]struct{ effective, permitted, inheritable uint32 }

// powerless runs f on this goroutine while no thread of this process, and no program that it starts, may change the
// network: every write to the kernel fails, as for a process whose rights were taken away. A process that is linked with C
// can do so for the calling thread only.
func powerless(f func()) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var data capData
	h := capHeader{version: capVersion}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPGET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&data)), 0); errno != 0 {
		return fmt.Errorf("capget: %w", errno)
	}
	less := data
	for _, c := range []int{capNetAdmin, capSysAdmin, capBPF} {
		less[c/32].effective &^= 1 << (c % 32)
	}
	if err := rights(less, securebitsNoRoot); err != nil {
		return err
	}
	f()
	return rights(data, 0)
}

func rights(data capData, securebits uintptr) error {
	if errno := everywhere(syscall.SYS_PRCTL, prSetSecurebits, securebits); errno != 0 {
		return fmt.Errorf("prctl securebits: %w", errno)
	}
	h := capHeader{version: capVersion}
	if errno := everywhere(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&data))); errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return nil
}

// everywhere makes a system call on all threads, or on this one where the runtime does not know them all.
func everywhere(number, a, b uintptr) syscall.Errno {
	_, _, errno := syscall.AllThreadsSyscall6(number, a, b, 0, 0, 0, 0)
	if errno == syscall.ENOTSUP {
		_, _, errno = syscall.RawSyscall6(number, a, b, 0, 0, 0, 0)
	}
	return errno
}
