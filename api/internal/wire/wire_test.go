package wire

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
)

// nested takes whatever bytes it is given.
type nested struct{ data []byte }

func (n *nested) Unmarshal(data []byte) error { n.data = slices.Clone(data); return nil }

func TestWriteAndRead(t *testing.T) {
	b := make([]byte, 200)
	i := PutDouble(b, len(b), 6<<3|byte(Fixed64), -1.5)
	i = PutBool(b, i, 5<<3, true)
	i = PutLength(b, PutVarint(b, i, 1<<3, 1), 4<<3|byte(Bytes), 2)
	i = PutBytes(b, i, 3<<3|byte(Bytes), []byte{0, 255})
	i = PutString(b, i, 2<<3|byte(Bytes), "name")
	minusOne := -1
	i = PutVarint(b, i, 1<<3, uint64(minusOne))
	if got := len(b) - i; got != 11+6+4+4+2+9 {
		t.Errorf("wrote %d bytes", got)
	}
	var number int64
	var name string
	var raw []byte
	var inner nested
	var truth bool
	var double float64
	r := NewReader(b[i:])
	for r.Next() {
		switch r.Number() {
		case 1:
			number = int64(r.Uint64())
		case 2:
			name = r.String()
		case 3:
			raw = r.Bytes()
		case 4:
			r.Message(&inner)
		case 5:
			truth = r.Bool()
		case 6:
			double = r.Double()
		}
	}
	if err := r.Done("M"); err != nil {
		t.Fatal(err)
	}
	if number != -1 || name != "name" || !slices.Equal(raw, []byte{0, 255}) || !slices.Equal(inner.data, []byte{8, 1}) || !truth || double != -1.5 {
		t.Errorf("read %d %q %v %v %t %g", number, name, raw, inner.data, truth, double)
	}
}

func TestSizeVarint(t *testing.T) {
	for v, want := range map[uint64]int{0: 1, 1: 1, 127: 1, 128: 2, 1<<14 - 1: 2, 1 << 14: 3, math.MaxUint32: 5, math.MaxUint64: 10} {
		b := make([]byte, 11)
		if got := SizeVarint(v); got != want || len(b)-PutVarint(b, len(b), 8, v) != want+1 {
			t.Errorf("SizeVarint(%d) = %d, want %d", v, got, want)
		}
	}
}

// readAll reads field 1 as a list of numbers and passes over everything else.
func readAll(data []byte) ([]uint32, error) {
	var list []uint32
	r := NewReader(data)
	for r.Next() {
		if r.Number() == 1 {
			list = r.Uint32s(list)
		} else {
			r.Skip()
		}
	}
	return list, r.Done("M")
}

func TestNumbersPackedAndNot(t *testing.T) {
	got, err := readAll([]byte{8, 1, 10, 3, 2, 0x80, 1, 8, 3})
	if err != nil || !slices.Equal(got, []uint32{1, 2, 128, 3}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestUnknownFieldsAreSkipped(t *testing.T) {
	got, err := readAll([]byte{
		0x10, 0x80, 1, // 2: varint
		0x19, 1, 2, 3, 4, 5, 6, 7, 8, // 3: fixed64
		0x22, 2, 9, 9, // 4: bytes
		0x2d, 1, 2, 3, 4, // 5: fixed32
		0x33, 0x3b, 8, 1, 0x3c, 0x12, 0, 0x34, // 6: a group with a group, a number and bytes
		8, 7,
	})
	if err != nil || !slices.Equal(got, []uint32{7}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestDamagedData(t *testing.T) {
	for name, data := range map[string][]byte{
		"key cut":               {0x80},
		"number cut":            {8, 0x80},
		"number too long":       {8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2},
		"length beyond the end": {0x12, 5, 1},
		"length beyond int":     {0x12, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1},
		"packed number cut":     {10, 1, 0x80},
		"fixed64 cut":           {0x11, 1},
		"fixed32 cut":           {0x15, 1},
		"wrong type":            {0x0d, 1, 2, 3, 4},
		"field number 0":        {0, 1},
		"field number too big":  {0x80, 0x80, 0x80, 0x80, 0x20, 1},
		"group not closed":      {0x13, 0x18, 1},
		"group closed twice":    {0x13, 0x14, 0x14},
		"group closed as other": {0x13, 0x1c},
		"unknown type":          {0x17},
	} {
		if got, err := readAll(data); err == nil {
			t.Errorf("%s: read %v, want an error", name, got)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{0x33, 0x3b, 8, 1, 0x3c, 0x12, 0, 0x34, 8, 7})
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := readAll(data); err == nil && len(list) > len(data) {
			t.Errorf("%d numbers out of %d bytes", len(list), len(data))
		}
	})
}

// TestGroupsAreNotNestedWithoutEnd: what is passed over takes no memory.
func TestGroupsAreNotNestedWithoutEnd(t *testing.T) {
	if _, err := readAll(bytes.Repeat([]byte{0x33}, 1<<20)); err == nil || !strings.Contains(err.Error(), "nested deeper") {
		t.Errorf("got %v", err)
	}
}
