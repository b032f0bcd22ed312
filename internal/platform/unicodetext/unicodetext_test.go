package unicodetext

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

func in16(text string, order binary.ByteOrder, mark string) []byte {
	out := []byte(mark)
	for _, u := range utf16.Encode([]rune(text)) {
		out = append(out, 0, 0)
		order.PutUint16(out[len(out)-2:], u)
	}
	return out
}

func TestDecode(t *testing.T) {
	const text = "kind: Namespace # für 😀\n"
	for name, raw := range map[string][]byte{
		"UTF-8": []byte(text), "with a mark": []byte("\xef\xbb\xbf" + text), "little": in16(text, binary.LittleEndian, "\xff\xfe"), "big": in16(text, binary.BigEndian, "\xfe\xff"),
		"little, no mark": in16(text, binary.LittleEndian, ""), "big, no mark": in16(text, binary.BigEndian, ""),
	} {
		if got, err := Decode(raw); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for want, raw := range map[string][]byte{
		"line 2: not UTF-8: the byte 0xfc; save the file as UTF-8": []byte("a\nf\xfcr"),
		"UTF-16, little endian, with an odd number of bytes":       append(in16(text, binary.LittleEndian, "\xff\xfe"), 'x'),
		"not UTF-16, big endian: half a character":                 append([]byte("\xfe\xff"), 0xd8, 0x3d, 0, 'x'),
	} {
		if _, err := Decode(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzDecode returns UTF-8 or an error, whatever comes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00"))
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if out, err := Decode(raw); err == nil && !utf8.Valid(out) {
			t.Fatalf("%q", out)
		}
	})
}
