package flowlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nephele-io/nephele/internal/flows"
)

// The bounds of what is read.
const (
	// longestLine is that of one line of text, in bytes. A line with all fields of version 11 and
	// long tags has less than 4,000.
	longestLine = 64 << 10
	// largestFile is that of a file after decompression, in bytes. AWS begins a new file at 75 MB.
	largestFile = 2 << 30
	// maxFields is that of one line.
	maxFields = 128
)

// Read reads one file of a flow log, whatever its format. The record that the sink gets is valid
// during the call only. The error says why the file could not be read to its end; what was read
// before stays.
func Read(in io.Reader, sink flows.Sink) (flows.Report, error) {
	buffered := bufio.NewReaderSize(in, longestLine)
	head, err := buffered.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return flows.Report{}, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return flows.Report{}, fmt.Errorf("not a whole gzip file: %w", err)
		}
		defer unzipped.Close()
		return readText(bufio.NewReaderSize(unzipped, longestLine), sink)
	case string(head) == parquetMagic:
		return readParquet(buffered, sink)
	}
	return readText(buffered, sink)
}

// readText reads lines.
func readText(in *bufio.Reader, sink flows.Sink) (flows.Report, error) {
	var report flows.Report
	var cols columns
	var v values
	record, gap := new(flows.Record), new(flows.Gap)
	words := make([]string, 0, maxFields)
	read := 0
	for number := 1; ; number++ {
		raw, err := line(in)
		read += len(raw)
		switch {
		case errors.Is(err, errTooLong):
			report.Leave(placeOf(number), err)
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return report, fmt.Errorf("line %d: %w", number, err)
		case read > largestFile:
			return report, fmt.Errorf("line %d: the file has more than %d bytes", number, largestFile)
		}
		last := err != nil
		if words = split(words[:0], raw); len(words) == 0 {
			if last {
				return report, nil
			}
			continue
		}
		if cols == nil {
			names, header := words, true
			if _, err := strconv.Atoi(words[0]); err == nil {
				names, header = defaultFormat, false
			}
			if cols, err = columnsOf(names); err != nil {
				return report, fmt.Errorf("line %d: %w", number, err)
			}
			report.Lacks = cols.lacks()
			if header {
				if last {
					return report, nil
				}
				continue
			}
		}
		if err := takeLine(words, cols, &v, record, gap, &report, sink, number); err != nil {
			return report, err
		}
		if last {
			return report, nil
		}
	}
}

// takeLine hands on one line. The error is that of the sink.
func takeLine(words []string, cols columns, v *values, record *flows.Record, gap *flows.Gap, report *flows.Report, sink flows.Sink, number int) error {
	if len(words) != len(cols) {
		report.Leave(placeOf(number), fmt.Errorf("%d fields: want %d", len(words), len(cols)))
		return nil
	}
	clear(v[:])
	for i, f := range cols {
		v[f] = words[i]
	}
	return take(v, record, gap, report, sink, func() string { return placeOf(number) })
}

// take hands on what one line, or row, tells.
func take(v *values, record *flows.Record, gap *flows.Gap, report *flows.Report, sink flows.Sink, place func() string) error {
	what, err := v.record(record, gap)
	switch {
	case err != nil:
		report.Leave(place(), err)
		return nil
	case what == statusNoData:
		report.NoData++
		return sink.Gap(gap)
	case what == statusSkipped:
		report.Skipped++
		return sink.Gap(gap)
	}
	report.Records++
	return sink.Record(record)
}

func placeOf(number int) string { return "line " + strconv.Itoa(number) }

var errTooLong = fmt.Errorf("longer than %d bytes", longestLine)

// line returns the next line. One that is too long is passed over.
func line(in *bufio.Reader) (string, error) {
	raw, err := in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return string(raw), err
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return "", errTooLong
}

// split cuts a line at its blanks, into one word more than are allowed at most.
func split(words []string, text string) []string {
	for len(words) <= maxFields {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			break
		}
		at := strings.IndexAny(text, " \t\r\n")
		if at < 0 {
			at = len(text)
		}
		words, text = append(words, text[:at]), text[at:]
	}
	return words
}
