package ruleset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"
)

// TestIDsTellNamesApart: an ID has 128 bits of a SHA-256 over the names with their lengths, so that
// no two lists of names have the same one, however they are put together.
func TestIDsTellNamesApart(t *testing.T) {
	t.Parallel()
	want := sha256.Sum256([]byte("5:group7:default3:web"))
	if got := IDOf("group", "default", "web"); len(got)*8 != 128 || hex.EncodeToString(got[:]) != hex.EncodeToString(want[:16]) {
		t.Errorf("%x, want %x", got, want[:16])
	}
	seen := map[ID]string{}
	put := func(parts ...string) {
		id, text := IDOf(parts...), fmt.Sprintf("%q", parts)
		if former, ok := seen[id]; ok && former != text {
			t.Errorf("%s and %s have the ID %x", former, text, id)
		}
		seen[id] = text
	}
	for _, parts := range [][]string{nil, {""}, {"", ""}, {"a"}, {"a", ""}, {"", "a"}, {"ab"}, {"a", "b"}, {"1:a"}, {"1", "a"}, {"a1:b"}, {"a", "1:b"}, {"a\x00b"}, {"2:ab"}, {"a1", "b"}} {
		put(parts...)
	}
	for n := range 100_000 {
		put("group", fmt.Sprint(n))
		put(fmt.Sprint("group", n))
	}
}
