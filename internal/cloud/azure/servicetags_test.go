package azure_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	"github.com/nephele-io/nephele/internal/sim/calls"
)

func blocks(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// tagCalls are the calls for service tags since the start.
func (l *lab) tagCalls() int {
	return len(slices.DeleteFunc(l.journal.Calls(0), func(c calls.Call) bool { return !strings.HasSuffix(c.Action, "serviceTags/read") }))
}

// TestServiceTags: the lists are read where somebody asks for them, once an hour, sorted; a failure
// leaves the last ones, is told, and is tried again with the next reading.
func TestServiceTags(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(b *build.Builder) {
		b.State.ServiceTags = map[string][]netip.Prefix{"Sql.WestEurope": blocks("40.68.37.158/32", "13.69.104.0/26", "2603:1020::/46")}
	})
	later := time.Duration(0) // on the account's clock only: tokens go by the cloud's
	a := l.account(func(c *azure.Config) { c.Now = func() time.Time { return l.now.Add(later) } })
	if snap := l.observe(a); snap.ServiceTags != nil || l.tagCalls() > 0 {
		t.Errorf("nobody has asked: %v, %d calls", snap.ServiceTags, l.tagCalls())
	}
	asked := a.Show([]cloud.ServiceKind{cloud.ServiceTag})
	observe := func() *cloud.Snapshot {
		t.Helper()
		snap, err := asked.Observe(t.Context(), inRegion)
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	first := blocks("13.69.104.0/26", "40.68.37.158/32", "2603:1020::/46")
	for range 3 {
		if got := observe(); !slices.Equal(got.ServiceTags["Sql.WestEurope"], first) || len(got.ServiceFaults) > 0 || len(got.Services) > 0 {
			t.Fatalf("%v %v %v", got.ServiceTags, got.ServiceFaults, got.Services)
		}
	}
	if n := l.tagCalls(); n != 1 {
		t.Errorf("%d calls within the hour", n)
	}
	l.change(func(c *simazure.Cloud) { c.SetServiceTag("Sql.WestEurope", blocks("13.69.105.0/26")) })
	later = time.Hour
	l.faults.Add(calls.Fault{Action: "Microsoft.Network/locations/serviceTags/read", Code: "AuthorizationFailed", Status: 403})
	got := observe()
	if !slices.Equal(got.ServiceTags["Sql.WestEurope"], first) || len(got.ServiceFaults) != 1 || cloud.ClassOf(got.ServiceFaults[0].Err) != cloud.Auth ||
		!slices.Equal(got.ServiceFaults[0].Kinds, []cloud.ServiceKind{cloud.ServiceTag}) {
		t.Fatalf("%v %+v", got.ServiceTags, got.ServiceFaults)
	}
	if got := observe(); !slices.Equal(got.ServiceTags["Sql.WestEurope"], blocks("13.69.105.0/26")) || len(got.ServiceFaults) > 0 {
		t.Fatalf("%v %+v", got.ServiceTags, got.ServiceFaults)
	}
}

// TestServiceTagsBound: more addresses than an account may have are refused, not cut off.
func TestServiceTagsBound(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(b *build.Builder) {
		b.State.ServiceTags = map[string][]netip.Prefix{"Storage": blocks("20.0.0.0/24", "20.0.1.0/24", "20.0.2.0/24")}
	})
	later := time.Duration(0)
	a := l.account(func(c *azure.Config) {
		c.Bounds, c.Now = cloud.Bounds{Objects: 60}, func() time.Time { return l.now.Add(later) }
	})
	if snap, err := a.Show([]cloud.ServiceKind{cloud.ServiceTag}).Observe(t.Context(), inRegion); err != nil || len(snap.ServiceTags["Storage"]) != 3 {
		t.Fatalf("%v %v", snap, err)
	}
	var many []netip.Prefix
	for i := range 60 {
		many = append(many, netip.PrefixFrom(netip.AddrFrom4([4]byte{20, 0, byte(i), 0}), 24))
	}
	l.change(func(c *simazure.Cloud) { c.SetServiceTag("Storage", many) })
	later = 2 * time.Hour
	snap, err := a.Show([]cloud.ServiceKind{cloud.ServiceTag}).Observe(t.Context(), inRegion)
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.ServiceFaults) != 1 || !strings.Contains(snap.ServiceFaults[0].Err.Error(), "--max-objects") || len(snap.ServiceTags["Storage"]) != 3 {
		t.Fatalf("%+v %v", snap.ServiceFaults, err)
	}
}

// TestServiceTagsDescribed: what az prints of service tags counts in a description, with
// "properties" and without; a description without them says so.
func TestServiceTagsDescribed(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	resources, err := json.Marshal(l.dump())
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		text, fails string
		faults      int
	}{
		"served":  {text: `{"cloud": "Public", "values": [{"name": "Sql", "properties": {"addressPrefixes": ["13.69.104.0/26"]}}]}`},
		"flat":    {text: `{"cloud": "Public", "values": [{"name": "Sql", "addressPrefixes": ["13.69.104.0/26"]}]}`},
		"none":    {faults: 1},
		"forged":  {text: `{"cloud": "Public", "values": [{"name": "Sql", "addressPrefixes": ["13.69.104.0/99"]}]}`, fails: "service tag Sql: \"13.69.104.0/99\" is no block of addresses"},
		"unnamed": {text: `{"cloud": "Public", "values": [null]}`, fails: "a service tag has no name"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range map[string]string{"resources.json": string(resources), "tags.json": c.text} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d, err := azure.ReadDescription(dir)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), "tags.json: "+c.fails) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			p, can := d.Account(subscription, nil, time.Now).(cloud.ServiceShower)
			if !can {
				t.Fatal("it shows no services")
			}
			snap, err := p.Show([]cloud.ServiceKind{cloud.ServiceTag}).Observe(t.Context(), inRegion)
			if err != nil || len(snap.ServiceFaults) != c.faults || c.faults == 0 && !slices.Equal(snap.ServiceTags["Sql"], blocks("13.69.104.0/26")) {
				t.Errorf("%v %+v", err, snap)
			}
		})
	}
}
