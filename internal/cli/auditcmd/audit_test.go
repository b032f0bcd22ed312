package auditcmd

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/cli/terminal"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/audit"
)

// TestVerifyCommand: the answer, its exit code, and what cannot be answered.
func TestVerifyCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	var log bytes.Buffer
	r, err := audit.Open(audit.Options{ClusterID: "c", File: file, Log: logr.FromSlogHandler(slog.NewJSONHandler(&log, nil)), Now: time.Now, Run: "run"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.Begin(cloud.Call{Name: "CreateTags"})(cloud.Outcome{})
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	said := func(args ...string) (string, error) {
		var out bytes.Buffer
		c := Command()
		c.SetArgs(append([]string{"verify"}, args...))
		c.SetIn(strings.NewReader(log.String()))
		c.SetOut(&out)
		c.SetErr(&out)
		c.SilenceErrors, c.SilenceUsage = true, true
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	text, err := said(file, "--log", "-")
	if err != nil || !strings.Contains(text, "6 lines of 1 processes were read. Each follows the one before it.") || !strings.Contains(text, "run:6") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := said(file, "-o", "json"); err != nil || !strings.Contains(text, `"lines": 6`) {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err := said(file, "--known", "0123"); !errors.Is(err, terminal.ErrNo) || !strings.Contains(text, "FAULT") || !strings.Contains(text, "0123") {
		t.Errorf("%v\n%s", err, text)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(raw, []byte("CreateTags"), []byte("DeleteTags"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := said(file); !errors.Is(err, terminal.ErrNo) || !strings.Contains(text, "line run:1 was changed") {
		t.Errorf("%v\n%s", err, text)
	}
	empty := filepath.Join(t.TempDir(), "empty.log")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{"name the file": nil, "no line of a record": {empty}, "file does not exist": {empty + "x"}, "want json": {file, "-o", "yaml"}} {
		if text, err := said(args...); err == nil || errors.Is(err, terminal.ErrNo) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v %s", args, err, text)
		}
	}
}
