package oracle

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/podway/podway/internal/scenario"
)

// Doc is one Kubernetes object, or a part of one, as YAML has it.
type Doc = map[string]any

// Case is a cluster and what happens to it.
type Case struct {
	Name  string
	About string
	Steps []Step

	raw []byte // of a file, in place of Steps
}

// Step is the cluster after something has happened.
type Step struct {
	Objects map[string]Doc // all of them, by "Kind [namespace/]name"
	Restart []string       // nodes whose proxy is killed and started anew first
	Fail    []string       // nodes on which the first write fails
	Expect  []string       // lines for the scenario
}

// clone copies the case; the objects themselves are shared.
func (c *Case) clone() *Case {
	out := *c
	out.Steps = slices.Clone(c.Steps)
	for i := range out.Steps {
		out.Steps[i].Objects = maps.Clone(out.Steps[i].Objects)
	}
	return &out
}

// Text is the case as a scenario file.
func (c *Case) Text() []byte {
	if c.raw != nil {
		return c.raw
	}
	var b strings.Builder
	fmt.Fprintln(&b, c.About)
	for i, s := range c.Steps {
		var docs []string
		if i == 0 {
			fmt.Fprintln(&b, "-- cluster.yaml --")
			for _, k := range ordered(s.Objects) {
				docs = append(docs, text(s.Objects[k]))
			}
		} else {
			fmt.Fprintf(&b, "-- then-%d.yaml --\n", i)
			docs = s.since(c.Steps[i-1].Objects)
		}
		b.WriteString(strings.Join(docs, "---\n"))
		lines := s.Expect
		if i == 0 && len(lines) == 0 {
			lines = []string{always}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "-- %s --\n%s\n", expectName(i), strings.Join(lines, "\n"))
		}
	}
	return []byte(b.String())
}

func expectName(i int) string {
	if i == 0 {
		return "expect"
	}
	return fmt.Sprintf("expect-%d", i)
}

// since are the documents that make the step out of the objects before.
func (s *Step) since(before map[string]Doc) (docs []string) {
	if len(s.Restart) > 0 {
		docs = append(docs, text(Doc{"restart": s.Restart}))
	}
	if len(s.Fail) > 0 {
		docs = append(docs, text(Doc{"fail": s.Fail}))
	}
	var gone []string
	for _, k := range ordered(before) {
		if s.Objects[k] == nil {
			gone = append(gone, k)
		}
	}
	if len(gone) > 0 {
		docs = append(docs, text(Doc{"delete": gone}))
	}
	for _, k := range ordered(s.Objects) {
		now, was := s.Objects[k], before[k]
		switch {
		case was == nil:
			docs = append(docs, text(now))
		case !reflect.DeepEqual(was, now):
			docs = append(docs, text(patch(was, now)))
		}
	}
	return docs
}

// patch is the merge patch (RFC 7386) from one state of an object to another, with what tells which object it is.
func patch(was, now Doc) Doc {
	p := merge(was, now)
	meta, _ := p["metadata"].(Doc)
	if meta == nil {
		meta = Doc{}
	}
	for k, v := range now["metadata"].(Doc) {
		if k == "name" || k == "namespace" {
			meta[k] = v
		}
	}
	p["apiVersion"], p["kind"], p["metadata"] = now["apiVersion"], now["kind"], meta
	return p
}

func merge(was, now Doc) Doc {
	p := Doc{}
	for k := range was {
		if _, ok := now[k]; !ok {
			p[k] = nil
		}
	}
	for k, v := range now {
		old, had := was[k]
		om, ok1 := old.(Doc)
		nm, ok2 := v.(Doc)
		switch {
		case had && reflect.DeepEqual(old, v):
		case ok1 && ok2:
			p[k] = merge(om, nm)
		default:
			p[k] = v
		}
	}
	return p
}

func text(d Doc) string {
	b, err := yaml.Marshal(d)
	if err != nil {
		panic(err) // only maps, lists, strings, numbers and truth values are in it
	}
	return string(b)
}

// ordered are the keys: Nodes, Pods, Services, slices, each by name.
func ordered(objects map[string]Doc) []string {
	rank := func(k string) int {
		kind, _, _ := strings.Cut(k, " ")
		return slices.Index([]string{"Node", "Pod", "Service", "EndpointSlice"}, kind)
	}
	return slices.SortedFunc(maps.Keys(objects), func(a, b string) int {
		if d := rank(a) - rank(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// load reads a scenario file as a case. Its expectations are not looked at.
func load(path string) (*Case, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	return &Case{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), raw: data}, nil
}

// file reads the case as the scenario that it is.
func (c *Case) file() (*scenario.File, error) { return scenario.Parse(c.Name, c.Text()) }
