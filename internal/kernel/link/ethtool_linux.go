package link

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolValue is struct ethtool_value of linux/ethtool.h.
type ethtoolValue struct{ cmd, data uint32 }

// ifreqData is struct ifreq with ifr_data.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// txChecksum reports whether the device leaves transmit checksums to what lies below it.
func (k *Kernel) txChecksum(name string) (bool, error) {
	v := ethtoolValue{cmd: unix.ETHTOOL_GTXCSUM}
	err := k.ethtool(name, &v)
	return v.data != 0, err
}

// setTxChecksum switches tx-checksum-ip-generic (with the other transmit checksum offloads) of a device.
func (k *Kernel) setTxChecksum(name string, on bool) error {
	v := ethtoolValue{cmd: unix.ETHTOOL_STXCSUM}
	if on {
		v.data = 1
	}
	return k.ethtool(name, &v)
}

func (k *Kernel) ethtool(name string, v *ethtoolValue) error {
	req := ifreqData{data: unsafe.Pointer(v)}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(k.tun), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	runtime.KeepAlive(v)
	if errno != 0 {
		return fmt.Errorf("link: checksum offload of %s: %w", name, errno)
	}
	return nil
}
