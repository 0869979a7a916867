package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/podway/podway/internal/model"
)

// LoadFolder reads every .yaml, .yml and .json file of a folder (or one file) into a snapshot. What is readable is in
// the snapshot even when the error is not nil; each error names its file.
func LoadFolder(paths ...string) (*model.Snapshot, error) {
	b := model.NewBuilder(nil)
	var errs []error
	for _, path := range paths {
		errs = append(errs, loadFolder(b, path))
	}
	return b.Snapshot(time.Now()), errors.Join(errs...)
}

func loadFolder(b *model.Builder, path string) error {
	var errs []error
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() || p != path && !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(p)) {
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		objs, err := Decode(data)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
		for _, o := range objs {
			b.Put(o)
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}
