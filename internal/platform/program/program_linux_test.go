package program

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// TestUnwritten: only what is the file's own, page by page, may be given back.
func TestUnwritten(t *testing.T) {
	const smaps = `00400000-00402000 r-xp 00000000 fe:00 99                            /opt/a program
Rss:                   8 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
00402000-00404000 r--p 00002000 fe:00 99                            /opt/a program
Anonymous:             4 kB
00404000-00406000 r--p 00004000 fe:00 99                            /opt/a program
Anonymous:             0 kB
00406000-00408000 rw-p 00006000 fe:00 99                            /opt/a program
Anonymous:             0 kB
00408000-0040a000 r--s 00008000 fe:00 99                            /opt/a program
Anonymous:             0 kB
7f0000000000-7f0000002000 r--p 00000000 fe:00 98                    /opt/another
Anonymous:             0 kB
c000000000-c004000000 rw-p 00000000 00:00 0 
Anonymous:             0 kB
`
	got, err := unwritten(strings.NewReader(smaps), "/opt/a program")
	want := []mapping{{0x400000, 0x402000}, {0x404000, 0x406000}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %x (%v), want %x", got, err, want)
	}
	if _, err := unwritten(strings.NewReader("what this is\n"), "/opt/a program"); err == nil {
		t.Error("no error for what is no list of mappings")
	}
}

// TestGiveBack: pages that are given back are resident no more, and are as they were when they are
// touched. What was written to a mapping stays.
func TestGiveBack(t *testing.T) {
	const size = 8 << 20
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, bytes.Repeat([]byte("nephele "), size/8), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all [2][]byte
	for i := range all {
		all[i], err = syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = syscall.Munmap(all[i]) }()
	}
	all[1][5] = '!'
	for _, m := range all {
		if bytes.Count(m, []byte("n")) != size/8 {
			t.Fatal("the file is mapped otherwise than it was written")
		}
		if err := syscall.Mprotect(m, syscall.PROT_READ); err != nil {
			t.Fatal(err)
		}
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	found, err := unwritten(bytes.NewReader(smaps), file)
	begin := uintptr(unsafe.Pointer(&all[0][0]))
	if err != nil || len(found) != 1 || found[0] != (mapping{begin, begin + size}) {
		t.Fatalf("found %x (%v), want the mapping at %x that was not written to", found, err, begin)
	}
	if got := residentOf(t, all[0]); got != size {
		t.Errorf("%d bytes are resident before, want %d", got, size)
	}
	found[0].giveBack()
	if got := residentOf(t, all[0]); got != 0 {
		t.Errorf("%d bytes are resident, want none", got)
	}
	if bytes.Count(all[0], []byte("nephele ")) != size/8 || all[1][5] != '!' {
		t.Error("a mapping does not hold what it held")
	}
	GiveBack() // and this goes on
}

// residentOf is how much of a mapping the page tables hold.
func residentOf(t *testing.T, m []byte) int {
	t.Helper()
	const presentBit = 63
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	page := os.Getpagesize()
	entries := make([]byte, 8*(len(m)/page))
	if _, err := pages.ReadAt(entries, int64(uintptr(unsafe.Pointer(&m[0])))/int64(page)*8); err != nil {
		t.Fatal(err)
	}
	n := 0
	for i := 7; i < len(entries); i += 8 {
		if entries[i]>>(presentBit-56)&1 == 1 {
			n += page
		}
	}
	return n
}
