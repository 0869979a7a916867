package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake is a process that ends when it is told to.
type fake struct {
	exits  chan string
	killed []bool // signals, true for a kill
	deaf   bool   // it ends only when it is killed
}

func (f *fake) process(pid int) Process {
	return Process{PID: pid, Exited: f.exits, Signal: func(kill bool) {
		f.killed = append(f.killed, kill)
		if kill || !f.deaf {
			f.exits <- "told to"
		}
	}}
}

func newFake() *fake { return &fake{exits: make(chan string, 2)} }

func TestAProcessThatEndsIsStartedAgainAfterGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		began := time.Now()
		s := &Service{Name: "p", Start: func() (Process, error) {
			starts = append(starts, time.Since(began))
			f := newFake()
			f.exits <- "exit status 1"
			return f.process(len(starts)), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		s.Run(ctx)
		ms := time.Millisecond
		if diff := cmp.Diff([]time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms}, starts); diff != "" {
			t.Error(diff)
		}
		if st := s.Status(); st.InRow != 5 {
			t.Errorf("%d ends in a row", st.InRow)
		}
	})
}

func TestPausesStaySmallForAProcessThatLivedLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var starts []time.Duration
		began := time.Now()
		s := &Service{Name: "p", Start: func() (Process, error) {
			starts = append(starts, time.Since(began))
			f := newFake()
			time.AfterFunc(20*time.Second, func() { f.exits <- "ended by itself" })
			return f.process(1), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		s.Run(ctx)
		if diff := cmp.Diff([]time.Duration{0, 20100 * time.Millisecond, 40200 * time.Millisecond}, starts); diff != "" {
			t.Error(diff)
		}
		if st := s.Status(); st.InRow != 1 || st.Restarts != 2 {
			t.Errorf("%d ends in a row of %d restarts", st.InRow, st.Restarts)
		}
		synctest.Wait()
		time.Sleep(time.Minute) // the timers end within the test
	})
}

func TestAStartThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		s := &Service{Name: "p", Start: func() (Process, error) {
			if tries++; tries < 3 {
				return Process{}, errors.New("no such file")
			}
			return newFake().process(7), nil
		}}
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := s.Status(); st.State != Running || st.PID != 7 || st.Restarts != 2 || st.LastExit != "no such file" {
			t.Errorf("status %+v", st)
		}
		cancel()
		synctest.Wait()
	})
}

func TestItIsReadyWhenItSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(time.Second)
		s := &Service{Name: "p",
			Start: func() (Process, error) { return newFake().process(1), nil },
			Ready: func(context.Context) error {
				if time.Now().Before(up) {
					return errors.New("not yet")
				}
				return nil
			},
		}
		var seen []State
		s.OnChange(func(st Status) { seen = append(seen, st.State) })
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if st := s.Status(); st.State != Starting {
			t.Errorf("after 0.9 s it is %s", st.State)
		}
		if err := s.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		cancel()
		synctest.Wait()
		if diff := cmp.Diff([]State{Starting, Running, Stopped}, seen); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAProcessThatEndsBeforeItIsReadyWasNeverReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		s := &Service{Name: "p",
			Start: func() (Process, error) { return f.process(1), nil },
			Ready: func(context.Context) error { return errors.New("never") },
		}
		ctx, cancel := context.WithCancel(t.Context())
		go s.Run(ctx)
		f.exits <- "exit status 2"
		wait, done := context.WithTimeout(t.Context(), 10*time.Second)
		defer done()
		if err := s.WaitReady(wait); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it became ready: %v", err)
		}
		cancel()
		synctest.Wait()
	})
}

func TestStoppingAsksFirstAndThenKills(t *testing.T) {
	for name, tt := range map[string]struct {
		grace time.Duration
		deaf  bool
		want  []bool
	}{
		"one that listens":       {3 * time.Second, false, []bool{false}},
		"one that does not":      {3 * time.Second, true, []bool{false, true}},
		"one that is not spared": {0, false, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake()
				f.deaf = tt.deaf
				s := &Service{Name: "p", Grace: tt.grace, Start: func() (Process, error) { return f.process(1), nil }}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { s.Run(ctx); close(ended) }()
				synctest.Wait()
				cancel()
				<-ended
				if diff := cmp.Diff(tt.want, f.killed); diff != "" {
					t.Error(diff)
				}
				if st := s.Status(); st.State != Stopped || st.PID != 0 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}
