package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/sim/ec2"
	"github.com/nephele-io/nephele/internal/tier"
)

// formerCommit names the commit of the release before this one, as long as no tag does.
const formerCommit = "testdata/release/commit"

var formerBinary = flag.String("former", "", "the binary of the release before this one, instead of building it")

// formerRelease returns the binary of the latest tagged release that this commit comes from, or of
// the commit that is written down. It is built once, and kept in the user's cache directory.
func formerRelease(t *testing.T) string {
	t.Helper()
	if *formerBinary != "" {
		return *formerBinary
	}
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", "../.."}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^")
	if err != nil {
		raw, err := os.ReadFile(formerCommit)
		if err != nil {
			t.Fatal(err)
		}
		commit = strings.TrimSpace(string(raw))
	}
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		if shallow, _ := git("rev-parse", "--is-shallow-repository"); shallow == "true" {
			t.Skipf("the release before this one, %s, is not in this clone, which has no history to build it from: git fetch --unshallow --tags", commit)
		}
		t.Fatalf("the release before this one, %s, is not in this repository: %v", commit, err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir() // nobody has a home here
	}
	kept := filepath.Join(cache, "nephele", "releases", commit, "nephele")
	if _, err := os.Stat(kept); err == nil {
		return kept
	}
	dir := t.TempDir()
	archive := filepath.Join(dir, "source.tar")
	if text, err := git("archive", "--output", archive, commit); err != nil {
		t.Fatalf("git archive %s: %v\n%s", commit, err, text)
	}
	source := filepath.Join(dir, "source")
	if err := os.Mkdir(source, 0o700); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	for _, c := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "tar", "-xf", archive, "-C", source),
		exec.CommandContext(t.Context(), filepath.Join(source, "hack/build.sh"), "standalone", "./cmd/nephele", "bin/nephele"),
	} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c.Args, err, out)
		}
	}
	t.Logf("built %s in %s", commit, time.Since(begin).Round(time.Second))
	return keep(t, filepath.Join(source, "bin/nephele"), kept)
}

// keep copies a program to where the next run finds it, whole or not at all, and returns where it
// is.
func keep(t *testing.T, built, kept string) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(kept), 0o755))
	raw, err := os.ReadFile(built)
	must(t, err)
	half := fmt.Sprint(kept, ".", os.Getpid())
	must(t, os.WriteFile(half, raw, 0o755))
	must(t, os.Rename(half, kept))
	return kept
}

// TestReleaseAndBack: the release before this one enforces policies; this one takes its place on
// the same data, then that one again, and this one once more. Each time nothing is to be done
// before and after, no flow changes at any call, and no call is made but marks of instances.
func TestReleaseAndBack(t *testing.T) {
	t.Parallel()
	tier.OnlyLong(t, "TestUpgrade starts from the data of a former release")
	former := formerRelease(t)
	c := newClusterOf(t, former)
	im := importAccount(t, c, hybridCloud)
	for _, p := range decodePolicies(t, policiesYAML) {
		next := im.oracle.copy()
		next.policies = append(next.policies, p)
		im.step("create "+p.GetName(), next, func() { im.create(p) })
	}
	c.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
	want, err := im.oracle.expect(im.server.World().State(), im.flows)
	im.must(err)
	im.guard.between(im.flows, want, want)
	im.nothingToDo(former)
	for _, program := range []string{binary, former, binary} {
		before := len(im.guard.changed())
		im.nothingToDo(program) // the plan of the one that is to come
		c.stop()
		c.program = program
		c.start()
		c.waitReady()
		started := time.Now()
		eventually(t, "the account is read and marked by the new process", func(ctx context.Context) (bool, string) {
			a, err := c.account(ctx)
			if err != nil || len(a.Status.Regions) == 0 || a.Status.Regions[0].LastSyncTime == nil {
				return false, fmt.Sprint(err)
			}
			marked := slices.ContainsFunc(im.guard.changed()[before:], isMark)
			return marked && !a.Status.Regions[0].LastSyncTime.Time.Before(started.Truncate(time.Second)), fmt.Sprint(marked, a.Status.Regions[0].LastSyncTime)
		})
		c.soleWriter(metav1.ConditionTrue, cloudv1.ReasonOK)
		im.nothingToDo(program)
		im.settle("with "+filepath.Base(filepath.Dir(filepath.Dir(program))), want)
		for _, call := range im.guard.changed()[before:] {
			if !isMark(call) {
				t.Errorf("%s changed something when it came: %s %v", program, call.Action, call.Params)
			}
		}
	}
	for len(im.oracle.policies) > 0 {
		im.deleteFirst()
	}
	im.mustBeReleased()
}

// nothingToDo checks that the plan of a program is empty.
func (im *imported) nothingToDo(program string) {
	im.t.Helper()
	kubeconfig := filepath.Join(im.c.dir, "kubeconfig")
	eventuallyTold(im.t, "the plan is empty", func(ctx context.Context) (bool, string) {
		out, err := exec.CommandContext(ctx, program, "plan", "--kubeconfig", kubeconfig).CombinedOutput()
		return err == nil, fmt.Sprint(string(out), err)
	})
}

// isMark reports whether a call does no more than to mark networks as an instance's.
func isMark(c ec2.Call) bool {
	if c.Action != "CreateTags" {
		return false
	}
	for key, value := range c.Params {
		if strings.HasPrefix(key, "Tag.") && strings.HasSuffix(key, ".Key") && value != cloud.TagInstance {
			return false
		}
	}
	return true
}
