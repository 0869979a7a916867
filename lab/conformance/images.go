package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// image is one of the images that the tests name: programs of this machine's packages with the libraries they need.
type image struct {
	name       string
	tools      []string          // looked for on PATH, put into /bin
	files      map[string]string // path in the image -> path under the repository's root
	links      map[string]string
	text       map[string]string
	entrypoint []string
	cmd        []string
}

const registry = "registry.k8s.io/e2e-test-images/"

// applets are those of busybox that the tests' shell lines call.
var applets = strings.Fields(`sh ls cat echo sleep wget grep awk sed head tail cut tr wc sort uniq date env id mkdir mount rm cp mv ln touch
	true false test expr seq timeout hostname ip ping ping6 nslookup ps kill find xargs stat chmod chown dd df printf tee which uname vi top nc.busybox traceroute ifconfig route netstat telnet httpd`)

// testImages are under the names that test/utils/image/manifest.go of the pinned release asks for.
var testImages = []image{
	{name: registry + "agnhost:2.66.1", tools: []string{"dig", "nslookup", "curl", "nc", "ss", "ip", "bash", "iperf", "socat"},
		files:      map[string]string{"/agnhost": "bin/agnhost", "/agnhost-2": "bin/agnhost"},
		entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
	{name: registry + "busybox:1.37.0-2", cmd: []string{"sh"}},
	{name: "registry.k8s.io/pause:3.10.2", files: map[string]string{"/pause": "bin/pause"}, entrypoint: []string{"/pause"}},
	{name: registry + "nginx:1.27.0-2", tools: []string{"nginx"}, text: nginxFiles, cmd: []string{"nginx", "-g", "daemon off;"}},
}

var nginxFiles = map[string]string{
	"/etc/nginx/nginx.conf":            "events {}\nhttp { server { listen 80; root /usr/share/nginx/html; } }\n",
	"/usr/share/nginx/html/index.html": "<title>Welcome to nginx!</title>\n",
	"/var/log/nginx/.keep":             "", "/var/lib/nginx/.keep": "",
}

func (o *options) archive(i image) string {
	return filepath.Join(o.dir, "images", strings.NewReplacer("/", "_", ":", "_").Replace(i.name)+".tar")
}

// images writes each image as an archive of `docker save`'s form.
func (o *options) images(ctx context.Context) error {
	if err := install(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(o.dir, "images"), 0o755); err != nil {
		return err
	}
	for _, i := range testImages {
		layer, err := i.layer(ctx, o.root)
		if err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
		if err := i.save(o.archive(i), layer); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
	}
	return nil
}

// install fetches the packages that the images' programs come from, where there is apt.
func install(ctx context.Context) error {
	var missing []string
	for program, pkg := range map[string]string{"dig": "bind9-dnsutils", "curl": "curl", "nc": "netcat-openbsd", "ss": "iproute2", "iperf": "iperf",
		"socat": "socat", "busybox": "busybox-static", "nginx": "nginx-light"} {
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(missing, pkg) {
			missing = append(missing, pkg)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	c := exec.CommandContext(ctx, "apt-get", append([]string{"install", "-y", "-qq", "--no-install-recommends"}, missing...)...)
	// No package may start its service on this machine.
	c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("install %s: %w: %s", strings.Join(missing, " "), err, out)
	}
	return nil
}

// layer is the image's file system as a tar.
func (i image) layer(ctx context.Context, root string) ([]byte, error) {
	l := layer{dirs: map[string]bool{}}
	l.w = tar.NewWriter(&l.b)
	for _, d := range []string{"/tmp", "/etc", "/run", "/uploads", "/var/tmp"} {
		l.dir(d)
	}
	l.text("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
	l.text("/etc/group", "root:x:0:\nuser:x:1000:\nwww-data:x:33:\nnogroup:x:65534:\n")
	l.text("/etc/nsswitch.conf", "hosts: files dns\n")
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	l.file("/bin/busybox", busybox)
	tools := slices.Clone(i.tools)
	for _, t := range tools {
		path, err := exec.LookPath(t)
		if err != nil {
			return nil, err
		}
		l.program(ctx, "/bin/"+t, path)
	}
	for _, a := range applets {
		if !slices.Contains(tools, a) {
			l.link("/bin/"+strings.TrimSuffix(a, ".busybox"), "/bin/busybox")
		}
	}
	for at, from := range i.files {
		l.file(at, filepath.Join(root, from))
	}
	for at, text := range i.text {
		l.text(at, text)
	}
	if l.err == nil {
		l.err = l.w.Close()
	}
	return l.b.Bytes(), l.err
}

// layer collects files; the first error stays.
type layer struct {
	b    bytes.Buffer
	w    *tar.Writer
	dirs map[string]bool
	err  error
}

func (l *layer) put(h tar.Header, from io.Reader) {
	if l.err != nil || l.dirs[h.Name] {
		return
	}
	l.dir(filepath.Dir(h.Name))
	l.dirs[h.Name] = true
	h.Name = strings.TrimPrefix(h.Name, "/")
	if l.err = l.w.WriteHeader(&h); l.err == nil && from != nil {
		_, l.err = io.Copy(l.w, from)
	}
}

func (l *layer) dir(path string) {
	if path == "/" || l.dirs[path] {
		return
	}
	l.put(tar.Header{Typeflag: tar.TypeDir, Name: path, Mode: 0o1777}, nil)
}

func (l *layer) text(path, text string) {
	l.put(tar.Header{Name: path, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
}

func (l *layer) link(path, to string) {
	l.put(tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: to, Mode: 0o777}, nil)
}

func (l *layer) file(path, from string) {
	if l.err != nil {
		return
	}
	f, err := os.Open(from)
	if err != nil {
		l.err = err
		return
	}
	defer f.Close()
	var st fs.FileInfo
	if st, l.err = f.Stat(); l.err == nil {
		l.put(tar.Header{Name: path, Mode: 0o755, Size: st.Size()}, f)
	}
}

// program puts a program and the shared libraries that it names.
func (l *layer) program(ctx context.Context, path, from string) {
	l.file(path, from)
	out, err := exec.CommandContext(ctx, "ldd", from).Output()
	if err != nil {
		return // static, or a script
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			l.file(word, word)
		}
	}
	for _, lib := range []string{"libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"} { // opened by name at run time
		if m, _ := filepath.Glob("/lib/*-linux-gnu/" + lib); len(m) > 0 {
			l.file(m[0], m[0])
		}
	}
}

// save writes the archive.
func (i image) save(path string, layer []byte) error {
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": i.entrypoint, "Cmd": i.cmd, "WorkingDir": "/", "Env": []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{i.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, data := range map[string][]byte{"config.json": config, "manifest.json": manifest, "layer.tar": layer} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
