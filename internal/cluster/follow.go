package cluster

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/podway/podway/internal/model"
)

// folderLook is how often a folder is looked at for changes.
const folderLook = time.Second

// Folder is a Source over a folder of YAML, or one file, which it follows.
type Folder struct {
	Path string
	Log  *slog.Logger
}

// Run calls put with what the folder holds, and again when it has changed, until ctx ends. What cannot be read at the
// start is an error; later, what was read last stays.
func (f *Folder) Run(ctx context.Context, put func(*model.Snapshot)) error {
	stamp := folderStamp(f.Path)
	s, err := LoadFolder(f.Path)
	if err != nil {
		return fmt.Errorf("cluster: objects of %s: %w", f.Path, err)
	}
	put(s)
	tick := time.NewTicker(folderLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		now := folderStamp(f.Path)
		if now == stamp {
			continue
		}
		stamp = now
		if s, err = LoadFolder(f.Path); err != nil {
			f.Log.Warn("changed objects cannot be read; those before stay", "path", f.Path, "err", err)
			continue
		}
		put(s)
	}
}

// folderStamp changes when a file comes, goes or is written.
func folderStamp(path string) string {
	var b strings.Builder
	_ = filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // the next look tells
		}
		if info, err := d.Info(); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", p, info.Size(), info.ModTime().UnixNano())
		}
		return nil
	})
	return b.String()
}
