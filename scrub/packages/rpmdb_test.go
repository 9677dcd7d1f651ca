package packages

import (
	"bytes"
	"encoding/binary"
	"hash/adler32"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

var sampleRPMs = []RPM{
	{"ours", "noarch", "2:1-3", []string{"ours", "our(tool)"}, "ours-1-3.src.rpm", "MIT", []rpmFile{
		{"/opt/ours/conf", strings.Repeat("ab", 32), rpmConfig, rpmDigest}, {"/opt/ours/tool", strings.Repeat("cd", 32), 0, rpmDigest}, {"/opt/ours", "", 0, 0},
	}},
	{"meta", "noarch", "1-1", []string{"meta"}, "", "GPL-2.0-only", nil},
	{"long", "x86_64", "1-1", slices.Repeat([]string{"a long name of something"}, 80), "", "", nil},
}

// Each form of a database has every package, whose headers are longer than a page. Of
// SQLite, complete transactions in the log count.
func TestRPMDatabasesOfEveryForm(t *testing.T) {
	for name, made := range map[string]rpmDatabase{
		"Packages": berkeleyOf(binary.LittleEndian, headersOf(sampleRPMs)...), "Packages of a big-endian machine": berkeleyOf(binary.BigEndian, headersOf(sampleRPMs)...),
		"Packages.db": ndbOf(headersOf(sampleRPMs)...), "rpmdb.sqlite": sqliteOf(headersOf(sampleRPMs)...), "rpmdb.sqlite with a log": logged(sqliteOf(headersOf(sampleRPMs)...)),
	} {
		t.Run(name, func(t *testing.T) {
			all, err := made.read(t)
			require.NoError(t, err)
			assert.Equal(t, sampleRPMs, all)
		})
	}
}

// A transaction whose end is not in the log did not happen.
func TestACutTransactionOfTheLogDoesNotCount(t *testing.T) {
	made := logged(sqliteOf(headersOf(sampleRPMs)...))
	made.log = made.log[:len(made.log)-1]
	_, err := made.read(t)
	require.ErrorIs(t, err, errDamaged) // its pages are only in the log
}

// A cut file is an error, and never a database with fewer packages. Other damage ends
// too: every byte is set to values that make sizes and references wrong.
func TestDamagedRPMDatabases(t *testing.T) {
	for _, made := range []rpmDatabase{berkeleyOf(binary.LittleEndian, headersOf(sampleRPMs)...), ndbOf(headersOf(sampleRPMs)...), sqliteOf(headersOf(sampleRPMs)...)} {
		t.Run(made.name, func(t *testing.T) {
			whole := made.data
			for at := 0; at < len(whole); at += 13 {
				made.data = whole[:at]
				_, err := made.read(t)
				require.Error(t, err, "cut at %d", at)
			}
			for at := range whole {
				for _, b := range []byte{0, 1, 0x7f, 0xff} {
					made.data = bytes.Clone(whole)
					made.data[at] = b
					if all, err := made.read(t); err == nil {
						require.LessOrEqual(t, len(all), len(sampleRPMs))
					}
				}
			}
		})
	}
}

// Few bytes cannot become many: names that share a long folder, and pages in a circle.
// rpm's own form has a checksum.
func TestHostileRPMDatabasesEnd(t *testing.T) {
	long := RPM{Name: "long", files: slices.Repeat([]rpmFile{{"/" + strings.Repeat("a", 1<<16) + "/x", "", 0, 0}}, 1000)}
	circle := sqliteOf(headersOf(sampleRPMs)...)
	binary.BigEndian.PutUint32(circle.data[512+8:], 2) // the last child of page 2
	chain := berkeleyOf(binary.LittleEndian, headersOf(sampleRPMs)...)
	binary.LittleEndian.PutUint32(chain.data[2*512+16:], 2) // the page after page 2
	changed := ndbOf(headersOf(sampleRPMs)...)
	changed.data[len(changed.data)-13]++ // just before the end of the last block
	for _, made := range []rpmDatabase{ndbOf(headersOf([]RPM{long})...), circle, chain, changed} {
		_, err := made.read(t)
		require.ErrorIs(t, err, errDamaged, made.name)
	}
	chain.data = append(chain.data, make([]byte, 1<<26)...)
	assert.Less(t, testkit.Allocated(func() { _, _ = chain.read(t) }), uint64(1<<28))
}

// Lines that rpm does not print in its format are an error.
func TestOutputOfRPM(t *testing.T) {
	all, err := parseRPMs("meta\tnoarch\t1-1\n(none)\tMIT\n\tmeta\n(none)\t(none)\t(none)\t(none)\nours\tnoarch\t1-1\n\tours\n1\t1\tabcd\t/opt/ours\n")
	require.NoError(t, err)
	assert.Equal(t, []RPM{{"meta", "noarch", "1-1", []string{"meta"}, "", "MIT", nil},
		{"ours", "noarch", "1-1", []string{"ours"}, "", "", []rpmFile{{"/opt/ours", "abcd", 1, 1}}}}, all)
	for _, said := range []string{"warning: x\n", "\tmeta\n", "meta\tnoarch\t1-1\nx\t1\tabcd\t/opt/ours\n"} {
		_, err := parseRPMs(said)
		require.ErrorContains(t, err, "rpm printed")
	}
}

// FuzzRPMDatabases reads anything as each form of a database.
func FuzzRPMDatabases(f *testing.F) {
	for _, made := range []rpmDatabase{berkeleyOf(binary.LittleEndian, headersOf(sampleRPMs)...), ndbOf(headersOf(sampleRPMs)...), logged(sqliteOf(headersOf(sampleRPMs)...))} {
		f.Add(made.data, made.log)
	}
	f.Fuzz(func(t *testing.T, data, log []byte) {
		for _, form := range rpmForms() {
			all, err := rpmDatabase{form.name, data, log}.read(t)
			require.True(t, err != nil || len(all) <= 8*(len(data)+len(log)))
		}
	})
}

// rpmDatabase is a database by the name of its file.
type rpmDatabase struct {
	name      string
	data, log []byte
}

func (d rpmDatabase) read(t *testing.T) ([]RPM, error) {
	t.Helper()
	forms := rpmForms()
	form := forms[slices.IndexFunc(forms, func(f rpmForm) bool { return f.name == d.name })]
	return parseRPMDatabase(&rpmParts{ctx: t.Context(), in: bytes.NewReader(d.data), size: int64(len(d.data)), log: d.log}, form.read)
}

func headersOf(all []RPM) (headers [][]byte) {
	for _, p := range all {
		texts, numbers := map[int][]string{tagName: {p.Name}, tagArch: {p.Arch}, tagProvides: p.Provides,
			tagSource:  {p.source},
			tagLicense: {p.license}}, map[int][]uint32{}
		version := p.Version
		if epoch, rest, ok := strings.Cut(p.Version, ":"); ok {
			version = rest
			numbers[tagEpoch] = []uint32{uint32(epoch[0] - '0')}
		}
		of, release, _ := strings.Cut(version, "-")
		texts[tagVersion], texts[tagRelease] = []string{of}, []string{release}
		for _, f := range p.files {
			folder, base := path.Split(f.name)
			if !slices.Contains(texts[tagFolder], folder) {
				texts[tagFolder] = append(texts[tagFolder], folder)
			}
			texts[tagBase], texts[tagDigests] = append(texts[tagBase], base), append(texts[tagDigests], f.sum)
			numbers[tagFolderOf] = append(numbers[tagFolderOf], uint32(slices.Index(texts[tagFolder], folder)))
			numbers[tagFlags], numbers[tagVerify] = append(numbers[tagFlags], f.flags), append(numbers[tagVerify], f.verify)
		}
		var index, values []byte
		entry := func(tag, kind, count int) {
			index = bigEndians(index, uint32(tag), uint32(kind), uint32(len(values)), uint32(count))
		}
		for _, tag := range slices.Sorted(maps.Keys(numbers)) {
			entry(tag, rpmInt32, len(numbers[tag]))
			values = bigEndians(values, numbers[tag]...)
		}
		for _, tag := range slices.Sorted(maps.Keys(texts)) {
			entry(tag, rpmTexts, len(texts[tag]))
			for _, text := range texts[tag] {
				values = append(append(values, text...), 0)
			}
		}
		headers = append(headers, slices.Concat(bigEndians(nil, uint32(len(index)/16), uint32(len(values))), index, values))
	}
	return headers
}

func bigEndians(to []byte, numbers ...uint32) []byte {
	for _, n := range numbers {
		to = binary.BigEndian.AppendUint32(to, n)
	}
	return to
}

// ndbOf makes a database with one page of slots.
func ndbOf(headers ...[]byte) rpmDatabase {
	const most = 4096
	file := make([]byte, most)
	put := func(at int, magic string, numbers ...uint32) {
		copy(file[at:], magic)
		for i, n := range numbers {
			binary.LittleEndian.PutUint32(file[at+4+4*i:], n)
		}
	}
	put(0, "RpmP", 0, 0, 1)
	for at := 32; at < most; at += 16 {
		put(at, "Slot")
	}
	for i, h := range headers {
		at, number, size := len(file), uint32(i+1), 16*((16+len(h)+12+15)/16)
		put(32+16*i, "Slot", number, uint32(at/16), uint32(size/16))
		file = append(file, make([]byte, size)...)
		put(at, "BlbS", number, 0, uint32(len(h)))
		copy(file[at+16:], h)
		end := len(file) - 12
		binary.LittleEndian.PutUint32(file[end:], adler32.Checksum(file[at:end]))
	}
	return rpmDatabase{name: "Packages.db", data: file}
}

// berkeleyOf makes a database with one page of keys and values.
func berkeleyOf(order binary.AppendByteOrder, headers ...[]byte) rpmDatabase {
	const size, head = 512, 26
	byteOrder := order.(binary.ByteOrder)
	page := func(kind byte) []byte { return append(make([]byte, 25), kind)[:head:head] }
	full := func(p []byte) []byte { return append(p, make([]byte, size-len(p))...) }
	hash, end := full(page(13)), size
	items := 0
	item := func(data []byte) {
		end -= len(data)
		copy(hash[end:], data)
		byteOrder.PutUint16(hash[head+2*items:], uint16(end))
		items++
	}
	item([]byte{1, 0, 0, 0, 0}) // the counter and its key
	item([]byte{1, 9, 0, 0, 0})
	var chains []byte
	for i, h := range headers {
		item(order.AppendUint32([]byte{1}, uint32(i+1)))
		item(order.AppendUint32(order.AppendUint32([]byte{3, 0, 0, 0}, uint32(2+len(chains)/size)), uint32(len(h))))
		for part := range slices.Chunk(h, size-head) {
			p := page(7)
			byteOrder.PutUint16(p[22:], uint16(len(part)))
			chains = append(chains, full(append(p, part...))...)
			byteOrder.PutUint32(chains[len(chains)-size+16:], uint32(2+len(chains)/size))
		}
		byteOrder.PutUint32(chains[len(chains)-size+16:], 0)
	}
	byteOrder.PutUint16(hash[20:], uint16(items))
	meta := full(page(8))
	for at, n := range map[int]uint32{12: 0x61561, 20: size, 32: uint32(1 + len(chains)/size)} {
		byteOrder.PutUint32(meta[at:], n)
	}
	return rpmDatabase{name: "Packages", data: slices.Concat(meta, hash, chains)}
}

// sqliteOf makes a database whose table has a branch with a leaf for each package.
func sqliteOf(headers ...[]byte) rpmDatabase {
	const size, most = 512, 477
	page := func(at int, kind byte, right uint32, cells ...[]byte) []byte {
		p, end, places := make([]byte, size), size, at+8
		p[at], p[at+4] = kind, byte(len(cells))
		if kind == 5 {
			binary.BigEndian.PutUint32(p[at+8:], right)
			places += 4
		}
		for i, c := range cells {
			end -= len(c)
			copy(p[end:], c)
			binary.BigEndian.PutUint16(p[places+2*i:], uint16(end))
		}
		return p
	}
	var rest []byte // the pages from the third one on
	next := func() uint32 { return uint32(3 + len(rest)/size) }
	var branches [][]byte
	for i, h := range headers {
		kind := number(12 + 2*len(h))
		record := slices.Concat([]byte{byte(2 + len(kind)), 0}, kind, h)
		here := len(record)
		if here > most {
			if here = 39 + (here-39)%508; here > most {
				here = 39
			}
		}
		cell := slices.Concat(number(len(record)), number(i+1), record[:here])
		if here < len(record) {
			cell = bigEndians(cell, next()+1)
		}
		branches = append(branches, append(bigEndians(nil, next()), number(i+1)...))
		rest = append(rest, page(0, 13, 0, cell)...)
		for part := range slices.Chunk(record[here:], size-4) {
			rest = append(rest, append(bigEndians(nil, next()+1), append(part, make([]byte, size-4-len(part))...)...)...)
		}
	}
	last := len(branches) - 1
	root := page(0, 5, binary.BigEndian.Uint32(branches[last]), branches[:last]...)
	schema := "tablePackagesPackages\x02CREATE"
	first := page(100, 13, 0, slices.Concat([]byte{byte(6 + len(schema)), 1, 6, 13 + 2*5, 13 + 2*8, 13 + 2*8, 1, 13 + 2*6}, []byte(schema)))
	copy(first, "SQLite format 3\x00\x02\x00")
	first[59] = 1
	return rpmDatabase{name: "rpmdb.sqlite", data: slices.Concat(first, root, rest)}
}

// number is a number of SQLite below 2^21.
func number(n int) []byte {
	all := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		all = append([]byte{byte(n&0x7f) | 0x80}, all...)
	}
	return all
}

// logged moves all pages but the first one into the log of writes, as a transaction.
func logged(d rpmDatabase) rpmDatabase {
	const size = 512
	var a, b uint32
	sum := func(data []byte) {
		for pair := range slices.Chunk(data, 8) {
			a += binary.BigEndian.Uint32(pair) + b
			b += binary.BigEndian.Uint32(pair[4:]) + a
		}
	}
	d.log = bigEndians(nil, 0x377f0683, 3007000, size, 0, 7, 8)
	sum(d.log)
	d.log = bigEndians(d.log, a, b)
	last := uint32(len(d.data) / size)
	for number := uint32(2); number <= last; number++ {
		page, end := d.data[(number-1)*size:number*size], uint32(0)
		if number == last {
			end = last
		}
		head := bigEndians(nil, number, end)
		sum(head)
		sum(page)
		d.log = append(bigEndians(append(d.log, head...), 7, 8, a, b), page...)
	}
	d.data = d.data[:size]
	return d
}
