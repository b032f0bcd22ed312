package browser

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nephele-io/nephele/internal/tier"
)

var updateLook = flag.Bool("update-look", false, "write testdata/look anew from what the screens look like")

// The pictures are compared by squares of this many points. A square has a mean brightness and an
// amount of ink, which is how much the brightness varies in it. What a font, its smoothing or the
// version of a browser changes is far below what a missing text changes: the page brings its own
// fonts, so that text has the same width everywhere.
const square = 40

// A square differs if its brightness or its ink does by more than this, of 255.
const (
	otherBright = 16
	otherInk    = 24
)

// mostOther is how much of a picture may differ: less than the smallest panel of a screen takes,
// which the test holds against the pictures without each of the panels.
const mostOther = 0.008

// squares are what is left of a picture: brightness in red, ink in green.
func squares(t *testing.T, picture image.Image) *image.NRGBA {
	t.Helper()
	b := picture.Bounds()
	out := image.NewNRGBA(image.Rect(0, 0, b.Dx()/square, b.Dy()/square))
	for y := range out.Rect.Dy() {
		for x := range out.Rect.Dx() {
			var sum, squared float64
			for py := range square {
				for px := range square {
					r, g, bl, _ := picture.At(b.Min.X+x*square+px, b.Min.Y+y*square+py).RGBA()
					v := (0.299*float64(r) + 0.587*float64(g) + 0.114*float64(bl)) / 257
					sum, squared = sum+v, squared+v*v
				}
			}
			n := float64(square * square)
			mean := sum / n
			ink := 2 * math.Sqrt(max(0, squared/n-mean*mean))
			out.SetNRGBA(x, y, color.NRGBA{R: uint8(mean), G: uint8(min(255, ink)), A: 255})
		}
	}
	return out
}

// differing is the part of the squares that differ.
func differing(a, b *image.NRGBA) float64 {
	if a.Rect != b.Rect {
		return 1
	}
	far := func(x, y uint8, most int) bool { return max(x, y)-min(x, y) > uint8(most) }
	n := 0
	for i := 0; i < len(a.Pix); i += 4 {
		if far(a.Pix[i], b.Pix[i], otherBright) || far(a.Pix[i+1], b.Pix[i+1], otherInk) {
			n++
		}
	}
	return float64(n) / float64(len(a.Pix)/4)
}

// TestLook: the screens look as they did, with a made-up world, at two widths, light and dark. "go
// test ./browser -run TestLook -args -update-look" writes anew what they are held against, if a
// change is wanted.
func TestLook(t *testing.T) {
	if !*updateLook {
		tier.OnlyLong(t, "TestConsole opens every screen and reads what it says")
	}
	web := tools(t)
	answer := play(t, web, "look", madeUp(t, web, 24), nil)
	pictures, _ := answer["pictures"].(map[string]any)
	if len(pictures) < 36+8 {
		t.Fatalf("only these pictures were made: %v", slices.Sorted(maps.Keys(pictures)))
	}
	for _, name := range slices.Sorted(maps.Keys(pictures)) {
		encoded, _ := pictures[name].(string)
		raw, err := base64.StdEncoding.DecodeString(encoded)
		must(t, err)
		picture, err := png.Decode(bytes.NewReader(raw))
		must(t, err)
		got := squares(t, picture)
		screen, without, broken := strings.Cut(name, " without ")
		file := filepath.Join("testdata", "look", screen+".png")
		if *updateLook && !broken {
			var out bytes.Buffer
			must(t, png.Encode(&out, got))
			must(t, os.WriteFile(file, out.Bytes(), 0o644))
			continue
		}
		former, err := os.ReadFile(file)
		must(t, err)
		wanted, err := png.Decode(bytes.NewReader(former))
		must(t, err)
		want, ok := wanted.(*image.NRGBA)
		if !ok {
			// Where all is opaque, PNG has a form without that.
			want = image.NewNRGBA(wanted.Bounds())
			for y := range want.Rect.Dy() {
				for x := range want.Rect.Dx() {
					want.Set(x, y, wanted.At(x, y))
				}
			}
		}
		d := differing(got, want)
		switch {
		case broken && d <= mostOther:
			t.Errorf("%s without its panel %q: only %.2f %% of the squares differ, so nobody would notice", screen, without, 100*d)
		case broken:
			t.Logf("%s without its panel %q: %.2f %% of the squares differ", screen, without, 100*d)
		case d > mostOther:
			shown := filepath.Join(os.TempDir(), fmt.Sprintf("nephele-%s.png", screen))
			_ = os.WriteFile(shown, raw, 0o644)
			t.Errorf("%s: %.2f %% of the squares differ, at most %.2f %% may; it looks like %s now", screen, 100*d, 100*mostOther, shown)
		default:
			t.Logf("%s: %.2f %% of the squares differ", screen, 100*d)
		}
	}
}
