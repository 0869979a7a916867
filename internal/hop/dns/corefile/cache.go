package corefile

import (
	"strconv"
	"strings"
	"time"

	"github.com/podway/podway/internal/hop/dns/config"
)

const (
	mostServFail   = 5 * time.Minute
	defaultStale   = time.Hour
	defaultWithin  = time.Minute
	defaultPercent = 10
)

func (r *reader) cache() {
	c := config.DefaultCache()
	c.At = r.d.name.at
	words := r.d.args
	if len(words) > 0 && isNumber(words[0]) {
		ttl := time.Duration(r.asNumber(words[0], 1, 1<<31-1)) * time.Second
		c.Success.Max, c.Denial.Max = ttl, ttl
		words = words[1:]
	}
	c.Zones = r.zones(words)
	r.options(map[string]func([]token){
		"success":     func(line []token) { r.part(&c.Success, line) },
		"denial":      func(line []token) { r.part(&c.Denial, line) },
		"prefetch":    func(line []token) { r.prefetch(c, line) },
		"serve_stale": func(line []token) { r.stale(c, line) },
		"servfail":    func(line []token) { r.servfail(c, line) },
		"disable":     func(line []token) { r.disable(c, line) },
		"keepttl":     func(line []token) { _, c.KeepTTL = r.args(line, 0, 0) },
	})
	for _, p := range []*config.CachePart{&c.Success, &c.Denial} {
		p.Min = min(p.Min, p.Max)
	}
	r.b.Cache = c
}

// part reads CAPACITY [TTL] [MINTTL].
func (r *reader) part(p *config.CachePart, line []token) {
	words, ok := r.args(line, 1, 3)
	if !ok {
		return
	}
	p.Capacity = r.asNumber(words[0], 1, 1<<24)
	if len(words) > 1 {
		p.Max = time.Duration(r.asNumber(words[1], 0, 1<<31-1)) * time.Second
	}
	if len(words) > 2 {
		p.Min = time.Duration(r.asNumber(words[2], 0, 1<<31-1)) * time.Second
	}
}

// prefetch reads AMOUNT [[DURATION] [PERCENTAGE%]].
func (r *reader) prefetch(c *config.Cache, line []token) {
	words, ok := r.args(line, 1, 3)
	if !ok {
		return
	}
	c.Prefetch = config.Prefetch{Amount: r.asNumber(words[0], 0, 1<<24), Within: defaultWithin, Percent: defaultPercent}
	for _, t := range words[1:] {
		number, percent := strings.CutSuffix(t.text, "%")
		if !percent {
			c.Prefetch.Within = r.asDuration(t)
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 10 || n > 90 {
			r.bad(t.at, "%q: want a part from 10%% to 90%%", t.text)
		}
		c.Prefetch.Percent = n
	}
}

// stale reads serve_stale [DURATION] [immediate|verify].
func (r *reader) stale(c *config.Cache, line []token) {
	words, ok := r.args(line, 0, 2)
	if !ok {
		return
	}
	c.Stale, c.StaleAtOnce = defaultStale, true
	for _, t := range words {
		switch t.text {
		case "immediate":
		case "verify", "verified":
			c.StaleAtOnce = false
		default:
			c.Stale = r.asDuration(t)
		}
	}
}

func (r *reader) servfail(c *config.Cache, line []token) {
	c.ServFail = r.duration(line)
	if c.ServFail > mostServFail {
		r.bad(line[0].at, "servfail: at most %s", mostServFail)
	}
}

// disable reads disable success|denial [ZONES...].
func (r *reader) disable(c *config.Cache, line []token) {
	words, ok := r.args(line, 1, -1)
	if !ok {
		return
	}
	zones := r.zones(words[1:])
	if len(zones) == 0 {
		zones = []string{"."}
	}
	switch words[0].text {
	case "success":
		c.Success.Off = append(c.Success.Off, zones...)
	case "denial":
		c.Denial.Off = append(c.Denial.Off, zones...)
	default:
		r.bad(words[0].at, "disable %q: want success or denial", words[0].text)
	}
}
