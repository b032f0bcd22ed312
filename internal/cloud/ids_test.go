package cloud_test

import (
	"testing"

	"github.com/nephele-io/nephele/internal/cloud"
)

func TestObjectName(t *testing.T) {
	for id, want := range map[string]string{
		"i-0AbC": "i-0abc", "vpc-1": "vpc-1",
		"/a/VM_1": "vm-1-562", // 47+97+47+118+109+95+49, of the id in lower case
	} {
		if got := cloud.ObjectName(id); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	if !cloud.SameID("/a/B", "/A/b") || cloud.SameID("i-a", "i-A") || !cloud.SameID("i-a", "i-a") {
		t.Error("paths are the same in any case, words are not")
	}
	for id, want := range map[string]string{"sg-1": "sg-1", "/a/nsg@1234": "/a/nsg", "none@1234": ""} {
		if got := cloud.GroupObject(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
