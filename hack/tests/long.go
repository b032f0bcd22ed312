package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// keptResults is where the results of the long tier are kept.
const keptResults = "dist/test-long.json"

// results are what the parts of the long tier have given with the same sources.
type results struct {
	Sources string
	Parts   map[string]result
}

type result struct {
	Held    bool
	Seconds float64
	// Unproven are lines about what the machine could not prove.
	Unproven []string
	Why      string `json:",omitempty"` // it did not hold
}

// long runs all parts that have not held yet with these sources, and prints the table.
func (r *runner) long(ctx context.Context, parts []part, sources string, fresh bool) error {
	kept := results{Sources: sources, Parts: map[string]result{}}
	if raw, err := os.ReadFile(keptResults); err == nil {
		var before results
		if json.Unmarshal(raw, &before) == nil && before.Sources == sources && before.Parts != nil {
			kept = before
		}
	}
	for _, p := range parts {
		if kept.Parts[p.name].Held && !fresh {
			fmt.Fprintf(r.out, "\n==> %s: has held with these sources\n", p.title)
			continue
		}
		if ctx.Err() != nil {
			break
		}
		kept.Parts[p.name] = r.longPart(ctx, p)
		if err := kept.write(); err != nil {
			return err
		}
	}
	return r.table(kept)
}

func (r *runner) longPart(ctx context.Context, p part) result {
	fmt.Fprintf(r.out, "\n==> %s\n", p.title)
	begin, before := time.Now(), len(r.unproven)
	var err error
	if why := p.lacks(); why != "" {
		line := p.title + ": " + why
		r.unproven = append(r.unproven, line)
		fmt.Fprintln(r.out, notProven+line)
	} else {
		err = r.part(ctx, p)
	}
	out := result{Held: err == nil, Seconds: time.Since(begin).Seconds(), Unproven: r.unproven[before:]}
	if err != nil {
		out.Why = err.Error()
		fmt.Fprintln(r.out, err)
	}
	return out
}

func (p part) lacks() string {
	if p.missing == nil {
		return ""
	}
	return p.missing()
}

func (k results) write() error {
	raw, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(keptResults), 0o755); err != nil {
		return err
	}
	return os.WriteFile(keptResults, append(raw, '\n'), 0o644)
}

// table prints what each part has given, and fails if one did not hold or was not run.
func (r *runner) table(k results) error {
	fmt.Fprintf(r.out, "\n| part | what | result | minutes | not proven here |\n|---|---|---|---|---|\n")
	var missing []string
	r.unproven = nil
	for _, p := range longParts(state{}) {
		got, ran := k.Parts[p.name]
		word := "held"
		switch {
		case !ran:
			word = "not run"
		case !got.Held:
			word = "FAILED"
		}
		if word != "held" {
			missing = append(missing, p.name)
		}
		r.unproven = append(r.unproven, got.Unproven...)
		fmt.Fprintf(r.out, "| %s | %s | %s | %.1f | %d |\n", p.name, p.title, word, got.Seconds/60, len(got.Unproven))
	}
	for _, line := range r.unproven {
		fmt.Fprintln(r.out, notProven+line)
	}
	if len(missing) > 0 {
		return fmt.Errorf("\nnot all parts have held: %s. Another run goes on with these", strings.Join(missing, ", "))
	}
	return nil
}

// sourcesID identifies the commit and all that differs from it.
func sourcesID(ctx context.Context) (string, error) {
	h := sha256.New()
	for _, args := range [][]string{{"rev-parse", "HEAD"}, {"diff", "--binary", "HEAD"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Stdout, cmd.Stderr = h, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
	}
	added, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--others", "--exclude-standard").Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(added), "\x00"), "\x00") {
		if name != "" {
			if err := hashFile(h, name); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(to io.Writer, name string) (err error) {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.WriteString(to, name+"\x00"); err != nil {
		return err
	}
	_, err = io.Copy(to, f)
	return err
}
