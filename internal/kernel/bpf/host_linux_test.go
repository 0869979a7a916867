package bpf

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/nettest"
)

func TestABPFFileSystemIsMountedOnceAndOnlyWhereAFolderIs(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.EBPF)
	runtime.LockOSThread() // for good: the mounts end with this thread
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone")
	if _, err := mountFS([]string{gone}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without a folder: %v", err)
	}
	for _, want := range []bool{true, false} {
		if did, err := mountFS([]string{gone, dir}); err != nil || did != want {
			t.Errorf("mounted: %v, %v; want %v", did, err, want)
		}
	}
	if at := find([]string{gone, dir}, unix.BPF_FS_MAGIC); at != dir {
		t.Errorf("it is found at %s", at)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Error(err)
	}
}
