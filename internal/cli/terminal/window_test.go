package terminal

import (
	"bytes"
	"testing"
)

// TestBroken: a line is broken between words, further in than it begins or under the last cell of a
// row; what cannot be broken stays whole.
func TestBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, want string }{
		{"short", "short"},
		{"  ! warning: a text that is somewhat longer than forty", "  ! warning: a text that is somewhat\n      longer than forty"},
		{"A  B   a cell with quite a long text in it, indeed", "A  B   a cell with quite a long text in\n       it, indeed"},
		{"  + group x  # a comment that is no cell of a table", "  + group x  # a comment that is no cell\n      of a table"},
		{"  a-word-that-is-much-longer-than-all-of-the-window and more", "  a-word-that-is-much-longer-than-all-of-the-window\n      and more"},
		{"ä ö ü ß ä ö ü ß ä ö ü ß ä ö ü ß ä ö ü ß", "ä ö ü ß ä ö ü ß ä ö ü ß ä ö ü ß ä ö ü ß"},
		{"", ""},
	} {
		if got := broken(c.line, 40); got != c.want {
			t.Errorf("%q:\n%s\nwant\n%s", c.line, got, c.want)
		}
	}
	var file bytes.Buffer
	w := WindowOf(&file)
	long := bytes.Repeat([]byte("word "), 100)
	if n, err := w.Write(long); err != nil || n != len(long) || !bytes.Equal(file.Bytes(), long) {
		t.Errorf("a file does not get the line as it is: %d, %v", n, err)
	}
}
