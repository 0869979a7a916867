package lab

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/node"
	"github.com/podway/podway/internal/lab/supervisor"
)

// LoadImage brings an image archive (docker save, or an OCI layout in a tar) into every node, now and at every start
// from now on. It returns the names in it.
func LoadImage(ctx context.Context, dir, file string) ([]string, error) {
	info, err := image.Inspect(file)
	if err != nil {
		return nil, err
	}
	return info.Names, load(ctx, dir, info.Names[0], func(to string) error { return copyFile(file, to) })
}

// LoadBinary makes an image of one static program and brings it into every node.
func LoadBinary(ctx context.Context, dir, binary, name string) error {
	if err := image.CheckName(name); err != nil {
		return err
	}
	if err := image.CheckStatic(binary); err != nil {
		return err
	}
	return load(ctx, dir, name, image.Image{Name: name, Binary: binary}.Save)
}

func load(ctx context.Context, dir, name string, save func(to string) error) error {
	st, err := supervisor.Connect(dir).Status(ctx, -1)
	if err != nil {
		return notRunning(dir, err)
	}
	archive := filepath.Join(st.Cluster.Images(), archiveName(name))
	// Every node imports what is there at its next start and ends when it cannot: an archive stays only when all could.
	staged := archive + ".staged"
	defer os.Remove(staged)
	if err := save(staged); err != nil {
		return err
	}
	if err := importEverywhere(ctx, st, staged); err != nil {
		return err
	}
	if err := os.Rename(staged, archive); err != nil {
		return fmt.Errorf("lab: image: %w", err)
	}
	return markEverywhere(st, archive)
}

// archiveName is the file of an image that a user loaded; a newer one of the same name takes its place.
func archiveName(image string) string {
	return fmt.Sprintf("loaded-%x.tar", sha256.Sum256([]byte(image)))[:len("loaded-")+16] + ".tar"
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("lab: image: %w", err)
	}
	defer in.Close()
	out, err := os.Create(to + ".new")
	if err != nil {
		return fmt.Errorf("lab: image: %w", err)
	}
	_, err = io.Copy(out, in)
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(to + ".new")
		return fmt.Errorf("lab: image: %w", err)
	}
	return os.Rename(to+".new", to)
}

// importEverywhere imports an archive of the lab's folder of images into every node at the same time.
func importEverywhere(ctx context.Context, st supervisor.Status, archive string) error {
	errs := make([]error, len(st.Nodes))
	var wg sync.WaitGroup
	for i, n := range st.Nodes {
		wg.Go(func() {
			if err := importOn(ctx, st, n.Name, archive); err != nil {
				errs[i] = fmt.Errorf("lab: load image on %s: %w", n.Name, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func importOn(ctx context.Context, st supervisor.Status, name, archive string) error {
	p, err := find(st, name)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	argv := append([]string{st.Cluster.Runtime.Ctr}, node.ImportArgs(node.ImagePath(archive))...)
	child, err := p.start(argv, []*os.File{null, w, w})
	w.Close()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Kill() })
	defer stop()
	text, _ := io.ReadAll(r)
	state, err := child.Wait()
	if err != nil {
		return err
	}
	if !state.Success() {
		return fmt.Errorf("%s: %s", state, strings.TrimSpace(string(bytes.ToValidUTF8(text, nil))))
	}
	return nil
}

// markEverywhere notes that every node has the archive.
func markEverywhere(st supervisor.Status, archive string) error {
	var errs []error
	for _, n := range st.Nodes {
		errs = append(errs, node.MarkImported(st.Cluster, n.Name, archive))
	}
	return errors.Join(errs...)
}
