package manifest

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestItemsWithoutKind: in the answers of an API server the items of a list do not say of which
// kind they are.
func TestItemsWithoutKind(t *testing.T) {
	const list = `{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicyList", "items": [
		{"metadata": {"namespace": "n", "name": "a"}, "spec": {"podSelector": {}}},
		{"metadata": {"namespace": "n", "name": "b"}, "spec": {"podSelector": {}, "ingress": 3}}]}`
	if _, err := Load([]string{"-"}, strings.NewReader(list)); err == nil || !strings.Contains(err.Error(), "spec.ingress") {
		t.Errorf("%v: want the field of the second one", err)
	}
	set, err := Load([]string{"-"}, strings.NewReader(strings.Replace(list, `, "ingress": 3`, "", 1)))
	if err != nil || len(set.Documents) != 2 || set.Documents[1].Name() != "NetworkPolicy n/b" {
		t.Fatalf("%v, %+v", err, set)
	}
	for _, text := range []string{`{"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "a"}}]}`, `{"apiVersion": "v1", "kind": "PodList", "items": [{"kind": "Pod", "metadata": {"name": "a"}}]}`} {
		if _, err := Load([]string{"-"}, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "want the fields apiVersion and kind") {
			t.Errorf("%v", err)
		}
	}
}

// TestEncodings reads what the shell of Windows writes, and says what else it cannot read.
func TestEncodings(t *testing.T) {
	const text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
	wide := "\xff\xfe"
	for _, u := range utf16.Encode([]rune(text)) {
		wide += string(binary.LittleEndian.AppendUint16(nil, u))
	}
	for _, content := range []string{text, "\xef\xbb\xbf" + text, wide} {
		if set, err := Load([]string{"-"}, strings.NewReader(content)); err != nil || len(set.Documents) != 1 {
			t.Errorf("%v", err)
		}
	}
	if _, err := Load([]string{"-"}, strings.NewReader(text+"# f\xfcr")); err == nil || !strings.Contains(err.Error(), "line 4: not UTF-8: the byte 0xfc; save the file as UTF-8") {
		t.Errorf("%v", err)
	}
}
