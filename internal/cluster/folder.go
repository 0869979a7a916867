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
func LoadFolder(path string) (*model.Snapshot, error) {
	b := model.NewBuilder(nil)
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
	return b.Snapshot(time.Now()), errors.Join(append(errs, err)...)
}
