package seed

import "testing"

func TestChoose(t *testing.T) {
	fresh := func() uint64 { return 7 }
	one, err := choose("TestOne", "", fresh)
	if again, _ := choose("TestOne", "", fresh); err != nil || again != one || one == 7 {
		t.Errorf("%d, then %d (%v)", one, again, err)
	}
	if other, _ := choose("TestOther", "", fresh); other == one {
		t.Error("two tests have one seed")
	}
	if is, err := choose("TestOne", "fresh", fresh); is != 7 || err != nil {
		t.Errorf("fresh: %d, %v", is, err)
	}
	if is, err := choose("TestOne", "18446744073709551615", fresh); is != 18446744073709551615 || err != nil {
		t.Errorf("a number: %d, %v", is, err)
	}
	for _, wish := range []string{"-1", "0x7", "FRESH", "18446744073709551616"} {
		if _, err := choose("TestOne", wish, fresh); err == nil {
			t.Errorf("%q is taken", wish)
		}
	}
}
