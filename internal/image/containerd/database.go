package containerd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/bits"
	"slices"
)

// Database is the content of a bbolt database (go.etcd.io/bbolt). eksnode reads the
// file itself, because bbolt maps the file into memory and trusts it: with a
// truncated or damaged file, bbolt ends the process, loops for ever, or uses
// unlimited memory. Here every number is checked before use, and every page in use is
// read once. Unused pages stay in the file.
type Database struct {
	Bucket
	// Free has the offsets of the unused pages, which still contain removed data.
	Free []int64
	// PageSize is the number of bytes of a page.
	PageSize int64
}

// Bucket contains values and other buckets, by name.
type Bucket struct {
	values  map[string][]byte
	buckets map[string]*Bucket
}

// Below is the bucket at a path of names, or nil. The bucket may be nil.
func (b *Bucket) Below(names ...string) *Bucket {
	for _, name := range names {
		if b == nil {
			return nil
		}
		b = b.buckets[name]
	}
	return b
}

// Value is the value of a name, or empty. The bucket may be nil.
func (b *Bucket) Value(name string) string {
	if b == nil {
		return ""
	}
	return string(b.values[name])
}

// Buckets are the names of a bucket's buckets, sorted.
func (b *Bucket) Buckets() []string {
	if b == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(b.buckets))
}

// The file has the form of bbolt's internal/common: a page begins with its number
// (8 bytes), kind (2), count of elements (2) and number of further pages (4).
const (
	magic, form  = 0xED0CDAED, 2
	headerSize   = 16
	metaSize     = 64
	branchKind   = 0x01
	leafKind     = 0x02
	metaKind     = 0x04
	freelistKind = 0x10
	// isBucket marks an element of a leaf that is a bucket.
	isBucket   = 0x01
	bucketSize = 16
	// unwritten says that the file contains no list of free pages.
	unwritten = ^uint64(0)
	// deepest is the maximum depth of pages: ten levels would contain more than any
	// disk.
	deepest = 100
	// inValue is the depth of a leaf that lies in a value.
	inValue = -1
	// usedMost is the maximum size of the pages in use, in bytes. A node has some MiB.
	usedMost = 64 << 20
)

type reader struct {
	file     io.ReaderAt
	left     uint64 // bytes that may still be read
	pageSize uint64
	pages    uint64 // number of pages of the database
	used     []bool // pages that were read
}

func parse(file io.ReaderAt, size int64) (*Database, error) {
	head := make([]byte, min(size, headMost))
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m, err := newestMeta(head)
	if err != nil {
		return nil, err
	}
	have := uint64(size) / m.pageSize
	if m.pages > have {
		return nil, fmt.Errorf("the file has %d of %d pages: it was cut off", have, m.pages)
	}
	r := &reader{file: file, left: usedMost, pageSize: m.pageSize, pages: m.pages, used: make([]bool, m.pages)}
	db := &Database{Bucket: newBucket(), PageSize: int64(m.pageSize)}
	if err := r.tree(m.root, &db.Bucket, 0); err != nil {
		return nil, err
	}
	if err := r.free(m.freelist, db); err != nil {
		return nil, err
	}
	return db, nil
}

func newBucket() Bucket {
	return Bucket{values: map[string][]byte{}, buckets: map[string]*Bucket{}}
}

// meta is one of the first two pages of a database. The one with the last
// transaction is valid.
type meta struct{ pageSize, root, freelist, pages, transaction uint64 }

// headMost is the number of bytes in which both meta pages are.
const headMost = 1<<16 + headerSize + metaSize

// newestMeta finds the valid meta page. The second lies one page after the first;
// when the first is damaged, the page size is unknown.
func newestMeta(text []byte) (meta, error) {
	var newest meta
	for offset := 0; offset+headerSize+metaSize <= len(text) && offset <= 1<<16; offset = max(512, 2*offset) {
		m, ok := metaAt(text[offset:])
		if !ok || offset > 0 && m.pageSize != uint64(offset) {
			continue
		}
		if newest.pageSize == 0 || m.transaction > newest.transaction {
			newest = m
		}
	}
	if newest.pageSize == 0 {
		return meta{}, errors.New("the file is not a bbolt database, or its beginning is damaged")
	}
	return newest, nil
}

func metaAt(text []byte) (meta, bool) {
	le, m := binary.LittleEndian, text[headerSize:headerSize+metaSize]
	sum := fnv.New64a()
	sum.Write(m[:56])
	found := meta{
		pageSize: uint64(le.Uint32(m[8:])), root: le.Uint64(m[16:]), freelist: le.Uint64(m[32:]),
		pages: le.Uint64(m[40:]), transaction: le.Uint64(m[48:]),
	}
	whole := le.Uint16(text[8:])&metaKind != 0 && le.Uint32(m) == magic && le.Uint32(m[4:]) == form &&
		le.Uint64(m[56:]) == sum.Sum64()
	return found, whole && found.pageSize >= 512 && found.pageSize <= 1<<16 && bits.OnesCount64(found.pageSize) == 1
}

// page is the text of a page and its further pages, with its kind and its count of
// elements.
func (r *reader) page(id uint64) (text []byte, kind, count int, err error) {
	if id < 2 || id >= r.pages {
		return nil, 0, 0, fmt.Errorf("page %d is not between 2 and %d", id, r.pages-1)
	}
	le, header := binary.LittleEndian, make([]byte, headerSize)
	if _, err := r.file.ReadAt(header, int64(id*r.pageSize)); err != nil {
		return nil, 0, 0, fmt.Errorf("reading page %d: %w", id, err)
	}
	number, more := le.Uint64(header), uint64(le.Uint32(header[12:]))
	if number != id {
		return nil, 0, 0, fmt.Errorf("page %d has the number %d", id, number)
	}
	if more >= r.pages-id {
		return nil, 0, 0, fmt.Errorf("page %d goes on for %d pages, but the file has only %d", id, more, r.pages-id-1)
	}
	for n := id; n <= id+more; n++ {
		if r.used[n] {
			return nil, 0, 0, fmt.Errorf("page %d is used twice", n)
		}
		r.used[n] = true
	}
	length := (more + 1) * r.pageSize
	if length > r.left {
		return nil, 0, 0, fmt.Errorf("the pages in use have more than %d bytes", usedMost)
	}
	r.left -= length
	text = make([]byte, length)
	if _, err := r.file.ReadAt(text, int64(id*r.pageSize)); err != nil {
		return nil, 0, 0, fmt.Errorf("reading page %d: %w", id, err)
	}
	return text, int(le.Uint16(text[8:])), int(le.Uint16(text[10:])), nil
}

// tree reads a page and the pages below it into a bucket.
func (r *reader) tree(id uint64, into *Bucket, depth int) error {
	if depth > deepest {
		return fmt.Errorf("page %d lies below more than %d others", id, deepest)
	}
	text, kind, count, err := r.page(id)
	if err != nil {
		return err
	}
	switch kind {
	case leafKind:
		return r.leaf(id, text, count, into, depth)
	case branchKind:
		if headerSize+count*headerSize > len(text) {
			return fmt.Errorf("page %d has no room for %d elements", id, count)
		}
		for n := range count { // position 4, size of the key 4, page 8
			if err := r.tree(binary.LittleEndian.Uint64(text[headerSize+n*headerSize+8:]), into, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("page %d has the kind %#x, neither branch nor leaf", id, kind)
}

// leaf reads a leaf's elements: flags, position, and sizes of key and value, of 4
// bytes each. Their contents follow in the same order. A small bucket is a leaf in
// a value; bbolt puts no further bucket of that form into it.
func (r *reader) leaf(id uint64, text []byte, count int, into *Bucket, depth int) error {
	end := uint64(headerSize + count*headerSize)
	if end > uint64(len(text)) {
		return fmt.Errorf("page %d has no room for %d elements", id, count)
	}
	le := binary.LittleEndian
	for n := range count {
		at := uint64(headerSize + n*headerSize)
		element := text[at:]
		from := at + uint64(le.Uint32(element[4:]))
		middle := from + uint64(le.Uint32(element[8:]))
		to := middle + uint64(le.Uint32(element[12:]))
		if from < end || to > uint64(len(text)) {
			return fmt.Errorf("page %d has element %d at %d to %d of %d bytes", id, n, from, to, len(text))
		}
		end = to
		name, value := string(text[from:middle]), text[middle:to]
		if le.Uint32(element)&isBucket == 0 {
			into.values[name] = value
			continue
		}
		b := newBucket()
		into.buckets[name] = &b
		if err := r.bucket(id, value, &b, depth); err != nil {
			return err
		}
	}
	return nil
}

// bucket reads a bucket: the number of its page and a sequence, of 8 bytes each.
// When the number is 0, the page itself follows.
func (r *reader) bucket(id uint64, value []byte, into *Bucket, depth int) error {
	if len(value) < bucketSize {
		return fmt.Errorf("page %d has a bucket of %d bytes", id, len(value))
	}
	if depth == inValue {
		return fmt.Errorf("page %d has a small bucket in a small bucket", id)
	}
	if root := binary.LittleEndian.Uint64(value); root != 0 {
		return r.tree(root, into, depth+1)
	}
	inline := value[bucketSize:]
	if len(inline) < headerSize || binary.LittleEndian.Uint16(inline[8:]) != leafKind {
		return fmt.Errorf("page %d contains a bucket that is not a leaf", id)
	}
	return r.leaf(id, inline, int(binary.LittleEndian.Uint16(inline[10:])), into, inValue)
}

// free records the unused pages. They must be those in the database's own list,
// because the caller is about to overwrite them.
func (r *reader) free(list uint64, db *Database) error {
	listed := make([]bool, r.pages)
	if list != unwritten {
		text, kind, count, err := r.page(list)
		if err != nil {
			return err
		}
		ids, many := text[headerSize:], uint64(count)
		if count == 0xFFFF { // the first is then the count
			many, ids = binary.LittleEndian.Uint64(ids), ids[8:]
		}
		if kind != freelistKind || many > uint64(len(ids)/8) {
			return fmt.Errorf("page %d does not list the free pages: its kind is %#x, its count %d", list, kind, many)
		}
		for n := range many {
			id := binary.LittleEndian.Uint64(ids[n*8:])
			if id < 2 || id >= r.pages || r.used[id] {
				return fmt.Errorf("page %d lists page %d as free, but that page is in use", list, id)
			}
			listed[id] = true
		}
	}
	for id := uint64(2); id < r.pages; id++ {
		if !r.used[id] && (listed[id] || list == unwritten) {
			db.Free = append(db.Free, int64(id*r.pageSize))
		}
	}
	return nil
}
