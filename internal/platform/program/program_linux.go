package program

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// mapping is a part of the address space of this process, from begin until before end.
type mapping struct{ begin, end uintptr }

// GiveBack gives back what is resident of the program's own file: with every page that is
// touched the system maps its surroundings, until all is there, and a third is used. That is mapped
// once more from the page cache when it is touched. What cannot be given back stays.
func GiveBack() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	parts, err := unwritten(maps, program)
	if err != nil {
		return
	}
	for _, m := range parts {
		m.giveBack()
	}
}

// giveBack lets go of the pages of a mapping. If it is one of those that unwritten finds, what it
// holds is what the file holds, so that nothing is lost.
func (m mapping) giveBack() {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.begin, m.end-m.begin, syscall.MADV_DONTNEED)
}

// unwritten returns the mappings of a file that cannot be written to and have no page that is not
// the file's, as smaps of /proc tells them. A page that was written to, as a loader that relocates
// does, would be lost.
func unwritten(smaps io.Reader, file string) ([]mapping, error) {
	var found []mapping
	var current *mapping
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if strings.HasSuffix(fields[0], ":") { // an attribute of the mapping before
			if fields[0] == "Anonymous:" && fields[1] == "0" && current != nil {
				found = append(found, *current)
			}
			continue
		}
		m, mode, path, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		current = nil
		if path == file && strings.HasPrefix(mode, "r-") && strings.HasSuffix(mode, "p") {
			current = &m
		}
	}
	return found, lines.Err()
}

// parseMapping reads the first line of a mapping: its addresses, mode, offset, device, inode and
// path, which may have spaces.
func parseMapping(line string) (m mapping, mode, path string, err error) {
	var first [5]string
	for i := range first {
		first[i], line, _ = strings.Cut(strings.TrimLeft(line, " "), " ")
	}
	begin, end, _ := strings.Cut(first[0], "-")
	b, err := strconv.ParseUint(begin, 16, strconv.IntSize)
	if err != nil {
		return m, "", "", fmt.Errorf("smaps: %q is not a range of addresses: %w", first[0], err)
	}
	e, err := strconv.ParseUint(end, 16, strconv.IntSize)
	if err != nil {
		return m, "", "", fmt.Errorf("smaps: %q is not a range of addresses: %w", first[0], err)
	}
	return mapping{uintptr(b), uintptr(e)}, first[1], strings.TrimLeft(line, " "), nil
}
