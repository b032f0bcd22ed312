package flowlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/nephele-io/nephele/internal/flows"
)

// parquetMagic is what a file of Parquet begins with.
const parquetMagic = "PAR1"

// The bounds of a file of Parquet, which is held in memory.
const (
	largestParquet = 256 << 20
	// maxUnpacked is what its columns may take after decompression, by its own words.
	maxUnpacked = 1 << 30
)

// readParquet reads rows. A file is somebody else's: what its reader stumbles over is an error
// about that file.
func readParquet(in io.Reader, sink flows.Sink) (report flows.Report, err error) {
	raw, err := io.ReadAll(io.LimitReader(in, largestParquet+1))
	switch {
	case err != nil:
		return report, err
	case len(raw) > largestParquet:
		return report, fmt.Errorf("a file of Parquet with more than %d bytes", largestParquet)
	}
	if err := wholeFooter(raw); err != nil {
		return report, err
	}
	var ofSink error
	defer func() {
		if wrong := recover(); wrong != nil {
			err = fmt.Errorf("a broken file of Parquet: %v", wrong)
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(raw), int64(len(raw)), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return report, fmt.Errorf("a broken file of Parquet: %w", err)
	}
	var unpacked int64
	for _, g := range file.Metadata().RowGroups {
		unpacked += g.TotalByteSize
	}
	if unpacked < 0 || unpacked > maxUnpacked {
		return report, fmt.Errorf("a file of Parquet that unpacks to %d bytes: want at most %d", unpacked, maxUnpacked)
	}
	var names []string
	for _, path := range file.Schema().Columns() {
		name := ""
		if len(path) == 1 {
			name = path[0]
		}
		names = append(names, name)
	}
	cols, err := columnsOf(names)
	if err != nil {
		return report, err
	}
	report.Lacks = cols.lacks()
	number := 0
	for _, group := range file.RowGroups() {
		rows := group.Rows()
		ofSink, err = takeRows(rows, cols, &number, &report, sink)
		closed := rows.Close()
		switch {
		case ofSink != nil:
			return report, ofSink
		case err != nil:
			return report, fmt.Errorf("a broken file of Parquet: row %d: %w", number+1, err)
		case closed != nil:
			return report, fmt.Errorf("a broken file of Parquet: %w", closed)
		}
	}
	return report, nil
}

// wholeFooter looks whether the description at the end of a file is as long as it says: its reader
// would make room for whatever that is.
func wholeFooter(raw []byte) error {
	const frame = 2*len(parquetMagic) + 4 // the word twice, and before the last one the length
	if len(raw) < frame || string(raw[len(raw)-len(parquetMagic):]) != parquetMagic {
		return errors.New("a broken file of Parquet: it has no end")
	}
	if size := binary.LittleEndian.Uint32(raw[len(raw)-8:]); int64(size) > int64(len(raw)-frame) {
		return fmt.Errorf("a broken file of Parquet: its description has %d bytes, and the file %d", size, len(raw))
	}
	return nil
}

// takeRows hands on the rows of one group.
func takeRows(rows parquet.Rows, cols columns, number *int, report *flows.Report, sink flows.Sink) (ofSink, err error) {
	var v values
	record, gap := new(flows.Record), new(flows.Gap)
	buffer := make([]parquet.Row, 256)
	for {
		n, err := rows.ReadRows(buffer)
		for _, row := range buffer[:n] {
			*number++
			clear(v[:])
			for _, value := range row {
				if c := value.Column(); c >= 0 && c < len(cols) && cols[c] != unused {
					v[cols[c]] = textOf(value)
				}
			}
			place := func() string { return "row " + strconv.Itoa(*number) }
			if err := take(&v, record, gap, report, sink, place); err != nil {
				return err, nil
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, io.ErrNoProgress
		}
	}
}

// textOf is a value as a line would have it.
func textOf(v parquet.Value) string {
	switch {
	case v.IsNull():
		return ""
	case v.Kind() == parquet.Int32:
		return strconv.FormatInt(int64(v.Int32()), 10)
	case v.Kind() == parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10)
	case v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray:
		return string(v.ByteArray())
	}
	return v.String()
}
