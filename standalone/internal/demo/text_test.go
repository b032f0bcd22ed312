package demo

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nephele-io/nephele/internal/manifest"
	"github.com/nephele-io/nephele/internal/sim/ec2"
)

func TestEveryManifestIsOneThatTheAPITakes(t *testing.T) {
	dir := t.TempDir()
	l := login{Endpoint: "http://127.0.0.1:1", Region: region, AccessKeyID: "AKIAEXAMPLE", Secret: "a/b+c", AzureURL: "https://127.0.0.1:2", Subscription: azureSubscription, Tenant: azureTenant, Location: azureLocation, Network: azureNetwork(), AzureCA: "-----BEGIN CERTIFICATE-----\nx\n"}
	told := []string{fileAccount, fileSelector, fileRoles, fileNoSSH, fileSwitches, fileMoved, fileAzure, fileWebTier, fileDatabases}
	ofClusters := []string{fileSetRoles, fileSetPods, fileSetSwitches, fileSetNewPod, fileSetMoved}
	if err := errors.Join(writeManifests(dir, l, false), writeFiles(dir, l, false, ofClusters...)); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(told, ofClusters...) {
		path := filepath.Join(dir, name)
		if _, err := manifest.Load([]string{path}, strings.NewReader("")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		objects, err := readManifest(path)
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
		}
		for _, o := range objects {
			if o.GetKind() == "" || o.GetName() == "" {
				t.Errorf("%s: an object without kind or name: %v", name, o.Object)
			}
		}
	}
}

func TestEditedManifestsAreKept(t *testing.T) {
	dir := t.TempDir()
	if err := writeManifests(dir, login{Endpoint: "http://127.0.0.1:1", Region: region, AccessKeyID: "AKIAEXAMPLE", Secret: "x", AzureURL: "https://127.0.0.1:2", Subscription: azureSubscription, Tenant: azureTenant, Location: azureLocation, Network: azureNetwork(), AzureCA: "-----BEGIN CERTIFICATE-----\nx\n"}, false); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(dir, fileSwitches), "name: switches", "name: edited")
	if err := writeManifests(dir, login{Endpoint: "http://127.0.0.1:2", Region: region, AccessKeyID: "AKIAEXAMPLE", Secret: "x", AzureURL: "https://127.0.0.1:2", Subscription: azureSubscription, Tenant: azureTenant, Location: azureLocation, Network: azureNetwork(), AzureCA: "-----BEGIN CERTIFICATE-----\nx\n"}, true); err != nil {
		t.Fatal(err)
	}
	if objects, err := readManifest(filepath.Join(dir, fileSwitches)); err != nil || objects[0].GetName() != "edited" {
		t.Errorf("the edited policy became %v, %v", objects, err)
	}
	if got := accountEndpoint(t, dir); got != "http://127.0.0.1:2" {
		t.Errorf("the account still names %s", got)
	}
}

func TestCallsAreCountedByWhatTheyDo(t *testing.T) {
	var all []ec2.Call
	for _, a := range []string{"DescribeVpcs", "GetCallerIdentity", "CreateTags", "AssumeRole", "CreateTags", "DeleteSecurityGroup"} {
		all = append(all, ec2.Call{Action: a})
	}
	want := "3 changing calls (2 CreateTags, 1 DeleteSecurityGroup) and 3 reading calls"
	if got := count(all).String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := count(nil).String(); got != "0 changing calls and 0 reading calls" {
		t.Errorf("%q", got)
	}
}

func TestTextIsBrokenIntoLines(t *testing.T) {
	var b strings.Builder
	tell := &teller{out: &b}
	long := strings.Repeat("word ", 50)
	tell.say("%s", long)
	tell.item("%s", long)
	tell.result("ok", "%s", long)
	tell.print("  ~ interface  # " + long + "\n  short  line\n")
	words := 0
	for line := range strings.Lines(b.String()) {
		words += strings.Count(line, "word")
		if len(line) > width+1 || strings.HasSuffix(line, " \n") {
			t.Errorf("line %q", line)
		}
	}
	if words != 200 || !strings.HasSuffix(b.String(), "\n  short  line\n") || !strings.Contains(b.String(), "\n  ok      word") {
		t.Errorf("%d of 200 words in\n%s", words, b.String())
	}
}

func TestNewsOfACell(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{"s..p", "sh..", "now https tcp/443; no more ping"},
		{"....", "?...", "now ssh tcp/22 between some interfaces"},
		{"shtp", "shtp", ""},
	} {
		if diff := cmp.Diff(test.want, news(test.before, test.after, services())); diff != "" {
			t.Errorf("%s -> %s: %s", test.before, test.after, diff)
		}
	}
}

func TestFailedChecksAreToldAndCounted(t *testing.T) {
	var b strings.Builder
	s := &story{teller: &teller{out: &b}}
	s.check(nil, "water is wet")
	s.check([]string{"it froze"}, "it stays so")
	if s.sum(&timeout{what: "it thaws", last: "ice", after: defaultLimit}) {
		t.Error("a story with failed checks held")
	}
	for _, want := range []string{"  ok      water is wet\n", "  FAILED  it stays so:\n          it froze\n", "last seen: ice", "2 of 3 checks did NOT hold"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
