// Package oom is the door to the kernel's choice of a process to kill when memory runs out. It owns this process's score
// and no other's.
package oom

import (
	"fmt"
	"os"
	"strconv"
)

const path = "/proc/self/oom_score_adj"

// Adjust sets the score of this process and of those that it starts, from -1000 (never) to 1000 (first). A lower one than
// before needs CAP_SYS_RESOURCE.
func Adjust(score int) error {
	if err := os.WriteFile(path, []byte(strconv.Itoa(score)), 0o644); err != nil {
		return fmt.Errorf("oom: adjust score to %d: %w", score, err)
	}
	return nil
}
