package proxy

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/sysctl"
)

const established = trackTimeouts + "tcp_timeout_established"

func TestTheLimitOfConnectionsIsRaisedNeverLowered(t *testing.T) {
	for _, c := range []struct {
		name    string
		t       Tracking
		cpus    int
		have    map[string]string
		want    map[string]string
		wrong   int
		readish bool
	}{
		{"by processors", Tracking{MaxPerCore: 32768, Min: 131072}, 8, map[string]string{trackMax: "65536", trackBuckets: "16384"},
			map[string]string{trackMax: "262144", trackBuckets: "65536"}, 0, false},
		{"not below the floor", Tracking{MaxPerCore: 32768, Min: 131072}, 1, map[string]string{trackMax: "65536", trackBuckets: "65536"},
			map[string]string{trackMax: "131072", trackBuckets: "65536"}, 0, false},
		{"a higher value stays", Tracking{MaxPerCore: 32768, Min: 131072}, 2, map[string]string{trackMax: "2000000", trackBuckets: "500000"},
			map[string]string{trackMax: "2000000", trackBuckets: "500000"}, 0, false},
		{"many processors do not fill the memory", Tracking{MaxPerCore: 32768}, 256, map[string]string{trackMax: "65536", trackBuckets: "262144"},
			map[string]string{trackMax: "1048576", trackBuckets: "262144"}, 0, false},
		{"0 leaves it alone", Tracking{Min: 131072}, 8, map[string]string{trackMax: "1", trackBuckets: "1"}, map[string]string{trackMax: "1", trackBuckets: "1"}, 0, false},
		{"timeouts are set", Tracking{Established: 24 * time.Hour}, 8, map[string]string{established: "432000"}, map[string]string{established: "86400"}, 0, false},
		{"what cannot be written is said", Tracking{MaxPerCore: 32768, Established: time.Hour}, 8, map[string]string{trackMax: "1", trackBuckets: "999999", established: "3600"},
			map[string]string{trackMax: "1", trackBuckets: "999999", established: "3600"}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &sysctl.Fake{Values: c.have, ReadOnly: c.readish}
			fs := c.t.Set(d, "node-a", c.cpus)
			if !maps.Equal(d.Values, c.want) || len(fs) != c.wrong {
				t.Errorf("got %v and %+v, want %v", d.Values, fs, c.want)
			}
			for _, f := range fs {
				if f.Code != flow.TrackingNotSet {
					t.Errorf("code %s", f.Code)
				}
			}
		})
	}
}

func TestAFullTableOfConnectionsIsAFindingWithFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := conntrack.NewFake()
		p := New(Options{Node: "node-a", Backend: &recorder{log: new([]string)}, Connections: table})
		check := func(r conntrack.Room, want string, severity flow.Severity) {
			t.Helper()
			table.SetRoom(r)
			time.Sleep(roomEvery)
			if _, err := p.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			fs := p.Findings()
			if want == "" {
				if len(fs) > 0 {
					t.Errorf("%+v: findings %+v", r, fs)
				}
				return
			}
			if len(fs) != 1 || fs[0].Code != flow.ConntrackFull || fs[0].Cause != want || fs[0].Severity != severity {
				t.Errorf("%+v: got %+v, want %q", r, fs, want)
			}
		}
		check(conntrack.Room{Entries: 900, Max: 1000, Dropped: 7}, "", "") // dropped before this process looked
		check(conntrack.Room{Entries: 950, Max: 1000, Dropped: 7},
			"Node node-a tracks 950 connections of at most 1000 (nf_conntrack_max); it drops new connections when there are no more.", flow.Warning)
		check(conntrack.Room{Entries: 1000, Max: 1000, Dropped: 9, Evicted: 4},
			"Node node-a tracks 1000 connections of at most 1000 (nf_conntrack_max) and dropped 2 packets for want of room; 4 connections without answer had to make room so far.", flow.Error)
		check(conntrack.Room{Entries: 10, Max: 1000, Dropped: 9, Evicted: 4},
			"Node node-a tracks 10 connections of at most 1000 (nf_conntrack_max) and dropped 2 packets for want of room; 4 connections without answer had to make room so far.", flow.Error)
		time.Sleep(roomCalm)
		check(conntrack.Room{Entries: 10, Max: 1000, Dropped: 9}, "", "")
	})
}
