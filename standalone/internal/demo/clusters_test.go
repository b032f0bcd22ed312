package demo

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/platform/progress"
)

// TestPlaneThatEnds: a control plane that ends by itself ends the story with what it has said last;
// one that the story kills does not, and can be started again at once.
func TestPlaneThatEnds(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho Nephele is ready after 0s.\n[ ! -e "+dir+"/fail ] || { echo no disk >&2; exit 3; }\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	broken := make(chan error, 1)
	p := &plane{name: "hub", program: program, dir: dir, log: filepath.Join(dir, "log"), broken: func(err error) { broken <- err }}
	for range 20 {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
		<-p.ready
		if err := p.kill(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-broken:
		t.Fatal("the story has killed it, and is told", err)
	default:
	}
	if err := os.WriteFile(filepath.Join(dir, "fail"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	if err := <-broken; !strings.Contains(err.Error(), "hub has ended by itself (exit status 3)") || !strings.Contains(err.Error(), "no disk") {
		t.Error(err)
	}
	if err := p.kill(); err != nil {
		t.Error(err)
	}
}

// TestPlaneThatIsNeverReady is given up.
func TestPlaneThatIsNeverReady(t *testing.T) {
	steps := progress.New(io.Discard, false)
	defer steps.Close()
	s := &setStory{story: &story{teller: &teller{out: io.Discard}, steps: steps, limit: 100 * time.Millisecond}}
	err := s.awaitReady(t.Context(), &plane{name: "hub", log: "hub.log", ready: make(chan struct{})})
	if err == nil || err.Error() != "gave up after 100ms of waiting until hub is ready; last seen: it is starting; its log: hub.log" {
		t.Error(err)
	}
}

// TestWithoutSecret: the story does not show what one could join by.
func TestWithoutSecret(t *testing.T) {
	for text, want := range map[string]string{
		"nephele join cluster:east:s3cret:abc@127.0.0.1:1\n": "nephele join cluster:east:SECRET:HASH@127.0.0.1:1\n",
		"join cluster:east:s3cret":                           "join cluster:east:SECRET:HASH@",
		"cluster token east":                                 "cluster token east",
	} {
		if got := withoutSecret(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSetTables: each table has the same places.
func TestSetTables(t *testing.T) {
	want := setTable(expectSetBefore).from
	for _, text := range []string{expectSetGuarded, expectSetAway, expectSetBack} {
		if got := setTable(text).from; strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
