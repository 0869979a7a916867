package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/podway/podway/internal/flow/spelling"
	"github.com/podway/podway/internal/hop/proxy/config"
)

// Load reads a scenario from disk.
func Load(path string) (*File, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("scenario: read: %w", err)
	}
	return Parse(path, data)
}

// Parse reads a scenario. The error joins one Problem for each thing that is wrong.
func Parse(name string, data []byte) (*File, error) {
	p := &parser{file: &File{Name: name, data: bytes.Clone(data)}, objects: newObjects()}
	p.read(data)
	if len(p.problems) > 0 {
		return nil, errors.Join(p.problems...)
	}
	return p.file, nil
}

type parser struct {
	file     *File
	objects  *objects
	proxy    *config.File // of every state
	dns      string       // Corefile of every state
	problems []error
}

func (p *parser) problem(line int, err error) {
	p.problems = append(p.problems, &Problem{File: p.file.Name, Line: line, Err: err})
}

var (
	thenFile   = regexp.MustCompile(`^then-([1-9][0-9]*)\.yaml$`)
	expectFile = regexp.MustCompile(`^expect(?:-([1-9][0-9]*))?$`)
)

// read goes through the archive in its order: each state before the expectations on it.
func (p *parser) read(data []byte) {
	ar := txtar.Parse(data)
	p.file.About = strings.TrimSpace(string(ar.Comment))
	if p.file.About == "" {
		p.problem(1, errors.New("the file must begin with a comment: what it proves, and where that is written"))
	}
	starts := fileLines(data)
	expectations := 0
	for i, f := range ar.Files {
		line := starts[i]
		switch {
		case f.Name == proxyFile && p.proxy == nil && len(p.file.Steps) == 0:
			p.proxyFile(f.Data, line)
		case f.Name == dnsFile && p.dns == "" && len(p.file.Steps) == 0:
			p.dnsFile(f.Data, line)
		case f.Name == "cluster.yaml" && len(p.file.Steps) == 0, p.nextThen(f.Name):
			p.step(f.Name, f.Data, line)
		case p.currentExpect(f.Name):
			expectations += p.expect(f.Data, line)
		default:
			p.problem(line, p.misplaced(f.Name))
		}
	}
	if expectations == 0 && len(p.problems) == 0 {
		p.problem(1, errors.New("nothing is expected: a file named expect is missing or empty"))
	}
}

func (p *parser) nextThen(name string) bool {
	m := thenFile.FindStringSubmatch(name)
	return m != nil && len(p.file.Steps) > 0 && m[1] == strconv.Itoa(len(p.file.Steps))
}

func (p *parser) currentExpect(name string) bool {
	m := expectFile.FindStringSubmatch(name)
	if m == nil || len(p.file.Steps) == 0 {
		return false
	}
	n := len(p.file.Steps) - 1
	return n == 0 && m[1] == "" || m[1] == strconv.Itoa(n)
}

// misplaced says what is wrong with a file that cannot stand where it does.
func (p *parser) misplaced(name string) error {
	n := len(p.file.Steps)
	switch {
	case name == proxyFile, name == dnsFile:
		return fmt.Errorf("%s: must stand once, before cluster.yaml", name)
	case n == 0:
		return fmt.Errorf("%s: the first file must be cluster.yaml, or proxy.yaml and Corefile before it", name)
	case name == "cluster.yaml":
		return errors.New("cluster.yaml is there twice")
	case thenFile.MatchString(name):
		return fmt.Errorf("%s: the next step is then-%d.yaml", name, n)
	case expectFile.MatchString(name):
		return fmt.Errorf("%s: after %s the expectations are called %s", name, p.file.Steps[n-1].Name, expectName(n-1))
	}
	return fmt.Errorf("%s: unknown file%s", name, didYouMean(name, expectName(n-1), fmt.Sprintf("then-%d.yaml", n)))
}

func expectName(step int) string {
	if step == 0 {
		return "expect"
	}
	return fmt.Sprintf("expect-%d", step)
}

// proxyFile reads the configuration of the service proxy.
func (p *parser) proxyFile(data []byte, line int) {
	var problems []Problem
	p.proxy, problems = proxyConfig(data)
	for _, pr := range problems {
		p.problem(line+pr.Line, pr.Err)
	}
}

// step applies one YAML file to the objects and keeps the state that results.
func (p *parser) step(name string, data []byte, line int) {
	for _, pr := range p.objects.apply(data, len(p.file.Steps) > 0) {
		p.problem(line+pr.Line, pr.Err)
	}
	st, err := p.objects.state()
	if err != nil {
		p.problem(line, err)
	}
	if st != nil {
		st.proxy, st.DNS = p.proxy, p.dns
	}
	p.file.Steps = append(p.file.Steps, Step{Name: name, State: st})
}

func (p *parser) expect(data []byte, line int) (n int) {
	st := &p.file.Steps[len(p.file.Steps)-1]
	for text := range strings.Lines(string(data)) {
		line++
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		n++
		e, err := parseExpectation(text, st.State)
		if err != nil {
			p.problem(line, err)
			continue
		}
		e.Line = line
		st.Expect = append(st.Expect, e)
	}
	return n
}

// fileLines is the line of each file's marker in the archive.
func fileLines(data []byte) []int {
	var out []int
	n := 0
	for line := range bytes.Lines(data) {
		n++
		l, ended := strings.CutSuffix(string(line), "\n")
		if ended {
			l = strings.TrimSuffix(l, "\r")
		}
		if len(l) >= 7 && strings.HasPrefix(l, "-- ") && strings.HasSuffix(l, " --") && strings.TrimSpace(l[3:len(l)-3]) != "" {
			out = append(out, n)
		}
	}
	return out
}

// didYouMean is " (did you mean X?)" for the nearest of the known words, or "".
func didYouMean(got string, known ...string) string {
	best, at := "", 3
	for _, k := range known {
		if d := spelling.Distance(got, k); d < at && d < len(k) {
			best, at = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}
