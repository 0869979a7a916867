package sysctl

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Processors counts the processors of the host, however few of them this process may use.
func Processors() int {
	b, err := os.ReadFile("/sys/devices/system/cpu/online")
	if n := ranges(string(b)); err == nil && n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// ranges counts what a list such as "0-3,8" names.
func ranges(list string) (n int) {
	for r := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		from, to, more := strings.Cut(r, "-")
		if !more {
			to = from
		}
		a, err := strconv.Atoi(from)
		b, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil || b < a {
			return 0
		}
		n += b - a + 1
	}
	return n
}
