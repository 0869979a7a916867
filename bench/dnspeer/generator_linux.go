package dnspeer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const moved = "PODWAY_BENCH_MOVED"

// MoveAway starts this program again on the processor that is not the servers'.
func MoveAway() error {
	if os.Getenv(moved) != "" {
		return nil
	}
	if LoadCPU() == CPU() {
		fmt.Println("one processor: servers and generator share it, so questions a second say little; CPU time for each does")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := first(2, append([]string{"taskset", "-c", strconv.Itoa(LoadCPU()), self}, os.Args[1:]...)...)
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%s is missing (package util-linux): %w", args[0], err)
	}
	return syscall.Exec(program, args, append(os.Environ(), moved+"=1"))
}

// Generate runs this program again in a place as the generator: with the argument -generate and the job as JSON. Its
// answer is what Report writes.
func Generate(ctx context.Context, job any, at Place) (s Seen, err error) {
	self, err := os.Executable()
	if err != nil {
		return s, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return s, err
	}
	args := at.args(self, "-generate", string(text))
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Run(); err != nil {
		return s, fmt.Errorf("generator: %w\n%s", err, strings.TrimSpace(errs.String()))
	}
	return s, json.Unmarshal(out.Bytes(), &s)
}

// Report runs a load and writes what it saw for Generate.
func Report(l Load) error {
	s, err := l.Run()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// Cost has the generator ask a server, and returns the server's processor time for each answer beside what was seen. A wrong
// answer is an error.
func (p *Process) Cost(ctx context.Context, job any, at Place) (s Seen, each time.Duration, err error) {
	before, err := p.CPUTime()
	if err != nil {
		return s, 0, err
	}
	if s, err = Generate(ctx, job, at); err != nil {
		return s, 0, err
	}
	after, err := p.CPUTime()
	if err != nil || s.Answered == 0 {
		return s, 0, errors.Join(err, fmt.Errorf("%d of %d questions answered\n%s", s.Answered, s.Sent, p.Log()))
	}
	if s.Wrong > 0 {
		return s, 0, fmt.Errorf("%d of %d answers are wrong: %s", s.Wrong, s.Answered, s.Example)
	}
	return s, (after - before) / time.Duration(s.Answered), nil
}

// Profile writes a CPU profile of the ten seconds in which the first floods come.
func Profile(path string) {
	time.AfterFunc(6*time.Second, func() {
		f, err := os.Create(path)
		if err != nil || pprof.StartCPUProfile(f) != nil {
			slog.Error("no profile", "err", err)
			return
		}
		time.Sleep(10 * time.Second)
		pprof.StopCPUProfile()
		f.Close()
	})
}
