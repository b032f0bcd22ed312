package realize

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/cloud/azure/resources"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// azureTagNames are tags of ours in the words of Azure.
func azureTagNames(tags map[string]string) map[string]any {
	out := map[string]any{}
	for k, v := range tags {
		out[strings.Replace(k, "nephele.io/", "nephele.io_", 1)] = v
	}
	return out
}

// make makes a resource by hand, or replaces it.
func (l *azureLab) make(id string, body map[string]any) {
	l.Helper()
	at, ok := document.ParseID(id)
	if !ok {
		l.Fatalf("%s is no id", id)
	}
	body["location"] = azureRegion
	l.cloudly(func(c *simazure.Cloud, now time.Time) error {
		p := c.Principals()[0]
		p.Assignments = nil
		_, err := c.Put(simazure.Write{By: &p, Now: now}, at, body)
		return err
	})
}

// retag sets tags of a resource by hand, beside those that it has; a value of nil removes one.
func (l *azureLab) retag(id string, tags map[string]any) {
	l.Helper()
	at, _ := document.ParseID(id)
	l.cloudly(func(c *simazure.Cloud, now time.Time) error {
		p := c.Principals()[0]
		p.Assignments = nil
		doc, err := c.Get(&p, at)
		if err != nil {
			return err
		}
		have, _ := doc["tags"].(map[string]any)
		next := map[string]any{}
		for k, v := range have {
			next[k] = v
		}
		for k, v := range tags {
			if next[k] = v; v == nil {
				delete(next, k)
			}
		}
		doc["tags"] = next
		_, err = c.Put(simazure.Write{By: &p, Now: now}, at, doc)
		return err
	})
}

// TestAzureTagsAbused: what becomes of tags and names that somebody writes by hand. Policies are in
// force when it is done, they hold on, and when they have gone, what somebody else made is as he
// left it.
func TestAzureTagsAbused(t *testing.T) {
	t.Parallel()
	shop := "/subscriptions/" + azureSubscription + "/resourceGroups/shop/providers/Microsoft.Network/"
	pair := func(l *azureLab, name string, tags map[string]string) {
		for _, kind := range []string{"applicationSecurityGroups/", "networkSecurityGroups/"} {
			l.make(shop+kind+resources.NameIn(azureVNet, name), map[string]any{"tags": azureTagNames(tags), "properties": map[string]any{}})
		}
	}
	own := map[string]string{cloud.TagCluster: labCluster, cloud.TagKind: cloud.KindClass, cloud.TagAccount: labAccount, cloud.TagClass: "deadbeef"}
	other := map[string]string{cloud.TagCluster: rivalCluster, cloud.TagKind: cloud.KindClass, cloud.TagAccount: labAccount, cloud.TagClass: "deadbeef"}
	for name, c := range map[string]struct {
		do func(*azureLab)
		// left are the parts of the ids of what stays, made by hand.
		left []string
	}{
		"our tags are copied to a group of somebody else":              {func(l *azureLab) { l.retag(shop+"networkSecurityGroups/db", azureTagNames(own)) }, nil},
		"a group is ours in every respect":                             {func(l *azureLab) { pair(l, "nephele-forged", own) }, nil}, // and nobody needs it
		"a group is named like ours, without tags":                     {func(l *azureLab) { pair(l, "nephele-forged", nil) }, []string{"nephele-forged"}},
		"a group has our name pattern and the tags of another cluster": {func(l *azureLab) { pair(l, "nephele-forged", other) }, []string{"nephele-forged"}},
		"a record of former groups on an interface that is not held": {func(l *azureLab) {
			l.retag(l.vms["db-1"].nic, azureTagNames(map[string]string{cloud.TagFormer: shop + "networkSecurityGroups/web"}))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newAzureLab(t, azureConfig{})
			l.engine.PutPolicy(webIn())
			l.publish()
			l.start()
			l.settle()
			c.do(l)
			left := l.documents()
			l.since = l.options.Clock.Now()
			l.accounts.observe(t.Context())
			l.settle()
			if diff := compare(l.actual(), l.wanted()); diff != "" {
				t.Errorf("the policies do not hold:\n%s", diff)
			}
			l.engine.DeletePolicy(webIn().UID)
			l.publish()
			l.settle()
			if diff := compare(l.actual(), l.wanted()); diff != "" {
				t.Errorf("given back:\n%s", diff)
			}
			after := l.documents()
			for _, part := range c.left {
				for id, doc := range left {
					if strings.Contains(id, part) && after[id] != doc {
						t.Errorf("%s is %s, was %s", id, after[id], doc)
					}
				}
			}
			for id := range after {
				if strings.Contains(id, "/nephele-") && len(c.left) == 0 {
					t.Errorf("%s is left", id)
				}
			}
			if nic := after[l.vms["db-1"].nic]; nic == "" || strings.Contains(nic, "/nephele-") {
				t.Errorf("the interface of the database holds a group of ours: %s", nic)
			}
		})
	}
}

// tagsIn are the tags of a resource, each as name=value.
func (l *azureLab) tagsIn(id string) (out []string) {
	l.Helper()
	at, _ := document.ParseID(id)
	l.world.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p := c.Principals()[0]
		p.Assignments = nil
		doc, err := c.Get(&p, at)
		if err != nil {
			l.Error(err)
			return
		}
		tags, _ := json.Marshal(doc["tags"])
		have := map[string]string{}
		if err := json.Unmarshal(tags, &have); err != nil {
			l.Error(err)
		}
		for k, v := range have {
			out = append(out, k+"="+v)
		}
	})
	return out
}
