package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nephele-io/nephele/packaging/advisory"
)

var today = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// TestExceptions: a reason is a sentence, ends, and is gone when nothing needs it.
func TestExceptions(t *testing.T) {
	t.Parallel()
	const reason = `"The code that it is about is never called."`
	for text, want := range map[string]string{
		`[]`: "",
		`[{"kind":"vulnerability","id":"GO-1","module":"m","reason":` + reason + `,"until":"2026-11-28"}]`: "",
		`[{"kind":"vulnerability","id":"GO-1","module":"m","reason":` + reason + `,"until":"2026-11-27"}]`: "has ended",
		`[{"kind":"vulnerability","id":"GO-1","module":"m","reason":` + reason + `,"until":"2027-12-27"}]`: "within a year",
		`[{"kind":"vulnerability","id":"GO-1","module":"m","reason":` + reason + `,"until":"soon"}]`:       "want YYYY-MM-DD",
		`[{"kind":"vulnerability","id":"GO-1","module":"m","reason":"ok","until":"2026-12-01"}]`:           "a reason of a sentence",
		`[{"kind":"other","id":"GO-1","module":"m","reason":` + reason + `,"until":"2026-12-01"}]`:         "want kind",
		`[{"kind":"licence","id":"","module":"m","reason":` + reason + `,"until":"2026-12-01"}]`:           "want kind",
		`[{"kind":"licence","all":true}]`: "unknown field",
		`{`:                               "EOF",
	} {
		file := filepath.Join(t.TempDir(), "exceptions.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readExceptions(file, today); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	found := []finding{{vulnerability, "GO-1", "m", "in v1"}, {licenced, "GPL", "n", "is in our programs"}}
	fits := []exception{{Kind: vulnerability, ID: "GO-1", Module: "m"}, {Kind: licenced, ID: "GPL", Module: "n"}}
	for what, c := range map[string]struct {
		found      []finding
		exceptions []exception
		asked      bool
		want       string
	}{
		"all have a reason":            {found, fits, true, ""},
		"one has none":                 {found, fits[:1], true, "licence GPL of n"},
		"a reason for another module":  {found, []exception{fits[0], {Kind: licenced, ID: "GPL", Module: "x"}}, true, "licence GPL of n"},
		"a reason that nobody needs":   {found[:1], fits, true, "not needed any more"},
		"nothing is known":             {nil, fits, false, ""},
		"a vulnerability of one":       {found[:1], nil, false, "vulnerability GO-1 of m"},
		"a licence for a vulnerabilty": {found[:1], []exception{{Kind: licenced, ID: "GO-1", Module: "m"}}, true, "vulnerability GO-1"},
	} {
		if err := judge(c.found, c.exceptions, c.asked, c.asked); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// TestAnswers: what govulncheck and npm print is read; what is no answer is no good news.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const stream = `{"config":{"protocol_version":"v1.0.0"}} {"progress":{"message":"..."}} {"osv":{"id":"GO-2026-1"}}
{"finding":{"osv":"GO-2026-1","fixed_version":"v1.2.4","trace":[{"module":"example.com/m","version":"v1.2.3"}]}}
{"finding":{"osv":"GO-2026-2","trace":[{"module":"stdlib","version":"v1.26.0"}]}}`
	got, err := readGoVulnerabilities(strings.NewReader(stream))
	if err != nil || len(got) != 2 || got[0] != (finding{vulnerability, "GO-2026-1", "example.com/m", "in v1.2.3, fixed in v1.2.4"}) || got[1].What != "in v1.26.0, fixed in no version" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := readGoVulnerabilities(strings.NewReader(stream[:200])); err == nil {
		t.Error("half of an answer is taken for the whole")
	}
	const npm = `{"auditReportVersion":2,"vulnerabilities":{"a":{"via":["b"]},"b":{"via":[{"source":1,"name":"b","title":"Bad","url":"https://github.com/advisories/GHSA-x","severity":"high"}]}}}`
	if got, err := readNPM([]byte(npm)); err != nil || len(got) != 1 || got[0] != (finding{vulnerability, "GHSA-x", "b", "high: Bad"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, away := range []string{`{"message":"405 Method Not Allowed"}`, `{"error":{"code":"ENOAUDIT"}}`, `{}`} {
		if _, err := readNPM([]byte(away)); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", away, err)
		}
	}
	for answer, why := range map[string]string{
		`{"message":"405 Method Not Allowed"}`:                                        "405 Method Not Allowed",
		`{"error":{"code":"ENOAUDIT","summary":"Your registry does not support it"}}`: "ENOAUDIT Your registry does not support it",
		"<html>\n<body>Sign in</body></html>":                                         "Sign in",
		"":                                                                            "unexpected end",
	} {
		if _, err := readNPM([]byte(answer)); !errors.Is(err, errAway) || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", answer, err)
		}
	}
}

// TestNoAnswer: whatever stands between here and the databases, and however it refuses, nothing
// fails, and "not proven:" says why.
func TestNoAnswer(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for what, c := range map[string]struct{ script, want string }{
		"a page of a proxy":  {"echo 'govulncheck: gzip: invalid header' >&2; exit 1", "gzip: invalid header"},
		"a proxy that fails": {"echo 'HTTP GET x returned unexpected status: 502 Bad Gateway' >&2; exit 1", "502 Bad Gateway"},
		"half of an answer":  {`echo '{"finding":{"osv":"GO-2026-1"'`, "unexpected EOF"},
		"no word":            {"exit 1", "exit status 1"},
	} {
		for _, name := range []string{"go", "npm"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := goVulnerabilities(t.Context(), "../.."); !errors.Is(err, errAway) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
		if _, err := npmVulnerabilities(t.Context(), "../.."); !errors.Is(err, errAway) {
			t.Errorf("%s: npm: %v", what, err)
		}
	}
	// A tool that outlives the program which has started it does not keep this one waiting.
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\ntrap 'kill $tool; exit 1' INT\n/bin/sleep 300 &\ntool=$!\n: >started\nwait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	runs := filepath.Join(root, "cmd", "nephele")
	if err := os.MkdirAll(runs, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := goVulnerabilities(ctx, root)
		ended <- err
	}()
	for {
		if _, err := os.Stat(filepath.Join(runs, "started")); err == nil {
			break
		}
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was ended, and has an answer")
	}
}

// TestRemedy: what is found says what to do, for it may be found in a commit that passed before.
func TestRemedy(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{vulnerability: "after this commit: require a version with a fix", licenced: "use another module"} {
		err := judge([]finding{{kind, "ID", "m", "in v1"}}, nil, true, true)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), exceptionsFile) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestStated: an exception for a vulnerability needs a statement for users, by one of its names.
func TestStated(t *testing.T) {
	t.Parallel()
	said, err := advisory.Stated(fstest.MapFS{"vex/one.json": {Data: []byte(`{"statements":[{"vulnerability":{"name":"GO-2000-1","aliases":["CVE-2000-1"]}}]}`)}})
	if err != nil || len(said) != 2 {
		t.Fatal(said, err)
	}
	for id, fine := range map[string]bool{"GO-2000-1": true, "CVE-2000-1": true, "GO-2000-2": false} {
		err := unstated([]exception{{Kind: licenced, ID: "GPL", Module: "n"}, {Kind: vulnerability, ID: id, Module: "m"}}, said)
		if (err == nil) != fine || err != nil && !strings.Contains(err.Error(), "GO-2000-2 of m: want a statement about it below advisories/vex") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := advisory.Stated(fstest.MapFS{"vex/one.json": {Data: []byte(`{`)}}); err == nil || !strings.Contains(err.Error(), "vex/one.json") {
		t.Error(err)
	}
}
