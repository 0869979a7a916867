package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
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
	source     map[string]string // path in the image -> path in Kubernetes' module
	text       map[string]string
	entrypoint []string
	cmd        []string
}

const porter = "test/images/agnhost/porter/"

const registry = "registry.k8s.io/e2e-test-images/"

// applets are those of busybox that the tests' shell lines call.
var applets = strings.Fields(`ls cat echo sleep wget grep awk sed head tail cut tr wc sort uniq date env id mkdir mount rm cp mv ln touch
	true false test expr seq timeout hostname ip ping ping6 nslookup ps kill find xargs stat chmod chown dd df printf tee which uname vi top nc traceroute ifconfig route netstat telnet httpd`)

// testImages are under the names that test/utils/image/manifest.go of the pinned release asks for.
var testImages = []image{
	{name: registry + "agnhost:2.66.1", tools: []string{"dig", "nslookup", "getent", "curl", "nc", "ss", "ip", "bash", "iperf", "socat"},
		files:      map[string]string{"/agnhost": "bin/agnhost", "/agnhost-2": "bin/agnhost"},
		source:     map[string]string{"/localhost.crt": porter + "localhost.crt", "/localhost.key": porter + "localhost.key"},
		entrypoint: []string{"/agnhost"}, cmd: []string{"pause"}},
	{name: registry + "glibc-dns-testing:2.1.1", tools: []string{"dig", "nslookup", "getent", "hostname", "bash"}, cmd: []string{"bash"}},
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
	module, err := o.output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	for _, i := range testImages {
		layer, err := i.layer(ctx, o.root, module)
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
	for program, pkg := range map[string]string{"dig": "bind9-dnsutils", "dash": "dash", "curl": "curl", "nc": "netcat-openbsd", "ss": "iproute2", "iperf": "iperf",
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
