package podnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// Install puts the plugin where the container runtime looks for it: self, the running executable, as podway-cni in
// binDir (/opt/cni/bin), and the network's configuration in confDir (/etc/cni/net.d), whose presence makes the node
// ready. So the latter is written only when the NodeConfig is there, which done says. It costs little when nothing is to
// be done, and is for calling after every Apply.
func Install(o Options, binDir, confDir, self string) (done bool, findings []flow.Finding, err error) {
	o = o.withDefaults()
	if err := copyProgram(self, filepath.Join(binDir, PluginName)); err != nil {
		return false, nil, err
	}
	if err := linkLoopback(binDir); err != nil {
		return false, nil, err
	}
	if _, err := ReadNodeConfig(o.ConfigPath); err != nil {
		if errors.Is(err, ErrNoConfig) {
			err = nil
		}
		return false, nil, err
	}
	path, want := filepath.Join(confDir, ConflistName), conflist(o)
	if have, err := os.ReadFile(path); err != nil || string(have) != string(want) {
		if err := writeFile(path, want, 0o644); err != nil {
			return false, nil, err
		}
	}
	return true, othersFirst(o.Node, confDir), nil
}

// Uninstall takes away what Install made. The node stays usable for Pods that run.
func Uninstall(binDir, confDir string) error {
	gone := []string{filepath.Join(confDir, ConflistName), filepath.Join(binDir, PluginName)}
	loopback := filepath.Join(binDir, "loopback")
	if to, err := os.Readlink(loopback); err == nil && to == PluginName {
		gone = append(gone, loopback)
	}
	var errs []error
	for _, p := range gone {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("podnet: uninstall: %w", err))
		}
	}
	return errors.Join(errs...)
}

// conflist is the network's configuration. Runtimes from before CNI 1.1 read cniVersion only.
func conflist(o Options) []byte {
	type plugin struct {
		Type         string          `json:"type"`
		Config       string          `json:"config"`
		Store        string          `json:"store"`
		Capabilities map[string]bool `json:"capabilities"`
	}
	b, err := json.MarshalIndent(struct {
		CNIVersion  string   `json:"cniVersion"`
		CNIVersions []string `json:"cniVersions"`
		Name        string   `json:"name"`
		Plugins     []plugin `json:"plugins"`
	}{"1.0.0", []string{"1.0.0", "1.1.0"}, NetworkName, []plugin{{PluginName, o.ConfigPath, o.StoreDir, map[string]bool{"portMappings": true}}}}, "", "  ")
	if err != nil {
		panic(err) // strings only
	}
	return append(b, '\n')
}

// copyProgram makes a whole copy, since the file of a running container may vanish with it, and puts it in its place in
// one step. A copy of the same size and time is the same.
func copyProgram(self, path string) (err error) {
	src, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("podnet: install plugin: %w", err)
	}
	defer src.Close()
	want, err := src.Stat()
	if err != nil {
		return fmt.Errorf("podnet: install plugin: %w", err)
	}
	if have, err := os.Lstat(path); err == nil && have.Mode().IsRegular() && have.Size() == want.Size() && have.ModTime().Equal(want.ModTime()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("podnet: install plugin: %w", err)
	}
	dst, err := os.CreateTemp(filepath.Dir(path), ".podway-cni-")
	if err != nil {
		return fmt.Errorf("podnet: install plugin: %w", err)
	}
	_, err = io.Copy(dst, src)
	err = errors.Join(err, dst.Chmod(0o755), dst.Sync(), dst.Close())
	if err == nil {
		err = os.Chtimes(dst.Name(), want.ModTime(), want.ModTime())
	}
	if err == nil {
		err = os.Rename(dst.Name(), path)
	}
	if err != nil {
		os.Remove(dst.Name())
		return fmt.Errorf("podnet: install plugin: %w", err)
	}
	return nil
}

// linkLoopback gives runtimes that demand a plugin named loopback one, unless there is one.
func linkLoopback(binDir string) error {
	err := os.Symlink(PluginName, filepath.Join(binDir, "loopback"))
	if err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("podnet: install loopback plugin: %w", err)
	}
	return nil
}

// othersFirst says when the runtime will take another network: it takes the first file by name.
func othersFirst(node, confDir string) []flow.Finding {
	entries, _ := os.ReadDir(confDir)
	i := slices.IndexFunc(entries, func(e os.DirEntry) bool {
		ext := filepath.Ext(e.Name())
		return !strings.HasPrefix(e.Name(), ".") && (ext == ".conf" || ext == ".conflist" || ext == ".json") && e.Name() < ConflistName
	})
	if i < 0 {
		return nil
	}
	first := filepath.Join(confDir, entries[i].Name())
	f := finding(flow.OtherCNI, flow.Error, node, fmt.Sprintf("the container runtime of node %s takes %s, which comes before %s", node, first, ConflistName))
	f.Fix = "remove " + first + " on the node, and delete the Pods that it set up so that they are made anew"
	return []flow.Finding{f}
}
