package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// objects is the cluster as the YAML files have built it so far: raw documents by "Kind namespace/name", in the order of
// their first appearance, and what the short forms have given out.
type objects struct {
	order []string
	docs  map[string]map[string]any
	given given

	events   []event // of the step that is read
	hasProxy bool    // addIngressProxy has done its work
}

func newObjects() *objects { return &objects{docs: map[string]map[string]any{}, given: newGiven()} }

// document is one YAML document and the line it begins on, counted from 1.
type document struct {
	line int
	text []byte
}

// split takes a YAML stream apart at its --- lines.
func split(data []byte) []document {
	docs := []document{{line: 1}}
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if t := bytes.TrimRight(line, " \t\r\n"); string(t) == "---" || bytes.HasPrefix(line, []byte("--- #")) {
			docs = append(docs, document{line: n + 1})
			continue
		}
		last := &docs[len(docs)-1]
		last.text = append(last.text, line...)
	}
	return docs
}

// apply puts the documents on top: a new object is added, one that exists is changed as by a JSON merge patch, one marked
// "# delete" (or listed under delete:) is taken away. later says that this is not the first file.
func (o *objects) apply(data []byte, later bool) []Problem {
	var problems []Problem
	o.events = nil
	for _, d := range split(data) {
		if err := o.applyOne(d, later); err != nil {
			problems = append(problems, Problem{Line: d.line + leading(d.text), Err: err})
		}
	}
	return problems
}

func (o *objects) applyOne(d document, later bool) error {
	var doc map[string]any
	if err := unmarshal(d.text, &doc); err != nil {
		return err
	}
	if len(doc) == 0 {
		return nil
	}
	if list, ok := doc["delete"]; ok {
		return o.deleteList(doc, list, later)
	}
	if e, ok := eventOf(doc); ok {
		return o.happens(e, later)
	}
	key, err := keyOf(doc)
	if err != nil {
		return err
	}
	old, exists := o.docs[key]
	switch {
	case hasDeleteMark(d.text):
		return o.delete(key, later)
	case exists && !later:
		return fmt.Errorf("%s is there twice", key)
	case exists:
		doc, _ = merge(old, doc).(map[string]any)
	}
	if err := check(key, doc); err != nil {
		return err
	}
	if !exists {
		o.order = append(o.order, key)
	}
	o.docs[key] = doc
	return nil
}

// unmarshal reads YAML with integers kept whole, refusing a key that is there twice.
func unmarshal(text []byte, into *map[string]any) error {
	j, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", " "))
	}
	if string(bytes.TrimSpace(j)) == "null" {
		return nil
	}
	if err := json.Unmarshal(j, into); err != nil {
		return errors.New("not a Kubernetes object: a document must be a map with apiVersion, kind and metadata")
	}
	return nil
}

// keyOf is "Kind namespace/name" or, for cluster-wide kinds, "Kind name".
func keyOf(doc map[string]any) (string, error) {
	kind, _ := doc["kind"].(string)
	if kind == "" {
		return "", errors.New("kind is missing: not a Kubernetes object")
	}
	if v, _ := doc["apiVersion"].(string); v == "" {
		return "", fmt.Errorf("%s: apiVersion is missing", kind)
	}
	meta, _ := doc["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	if name == "" {
		return "", fmt.Errorf("%s: metadata.name is missing", kind)
	}
	ns, _ := meta["namespace"].(string)
	return key(kind, ns, name), nil
}

func key(kind, ns, name string) string {
	switch {
	case slices.Contains([]string{"Node", "IngressClass", "AddressPool"}, kind):
		return kind + " " + name
	case ns == "":
		ns = "default"
	}
	return kind + " " + ns + "/" + name
}

// hasDeleteMark reports whether a comment line before the first field is exactly "# delete".
func hasDeleteMark(text []byte) bool {
	for line := range bytes.Lines(text) {
		t := strings.TrimSpace(string(line))
		switch {
		case t == "# delete" || t == "#delete":
			return true
		case t != "" && t[0] != '#':
			return false
		}
	}
	return false
}

// deleteList takes away what "delete:" lists, each as "Kind [namespace/]name".
func (o *objects) deleteList(doc map[string]any, list any, later bool) error {
	items, ok := list.([]any)
	if !ok || len(doc) != 1 {
		return errors.New("delete: must be the only key of its document and hold a list such as [Pod shop/cart-1]")
	}
	for _, it := range items {
		s, _ := it.(string)
		w := strings.Fields(s)
		if len(w) != 2 {
			return fmt.Errorf("delete: %v is not of the form Kind [namespace/]name", it)
		}
		ns, name, found := strings.Cut(w[1], "/")
		if !found {
			ns, name = "", w[1]
		}
		if err := o.delete(key(w[0], ns, name), later); err != nil {
			return err
		}
	}
	return nil
}

func (o *objects) delete(key string, later bool) error {
	if !later {
		return errors.New("delete: there is nothing to delete in the first file")
	}
	if _, ok := o.docs[key]; !ok {
		return fmt.Errorf("delete: there is no %s%s", key, didYouMean(key, o.order...))
	}
	delete(o.docs, key)
	o.order = slices.DeleteFunc(o.order, func(k string) bool { return k == key })
	o.given.forget(key)
	return nil
}

// merge is RFC 7386: maps are merged, null removes, all else replaces.
func merge(old, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if m, ok := old.(map[string]any); ok {
		for k, v := range m {
			out[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
			continue
		}
		out[k] = merge(out[k], v)
	}
	return out
}

// leading counts the lines before the first that is neither blank nor a comment.
func leading(text []byte) (n int) {
	for line := range bytes.Lines(text) {
		if t := bytes.TrimSpace(line); len(t) > 0 && t[0] != '#' {
			return n
		}
		n++
	}
	return 0
}
