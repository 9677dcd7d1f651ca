package containerd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/bbolt"

	"github.com/eksnode/packer-plugin-eksnode/e2e/testkit"
)

// written returns a database that bbolt wrote: nested buckets, small and large,
// values of several pages, and freed pages.
func written(t testing.TB, pageSize, many int, noFreelist bool) (text []byte, name string) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(many)))
	name = filepath.Join(t.TempDir(), "meta.db")
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{PageSize: pageSize, NoFreelistSync: noFreelist})
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for n := range many {
			b, err := tx.CreateBucketIfNotExists([]byte("v1"))
			for _, part := range []string{fmt.Sprintf("namespace-%d", n%3), "containers", fmt.Sprintf("container-%d", n)} {
				require.NoError(t, err)
				b, err = b.CreateBucketIfNotExists([]byte(part))
			}
			require.NoError(t, err)
			require.NoError(t, b.Put([]byte("spec"), bytes.Repeat([]byte{byte(n)}, random.IntN(3*pageSize))))
			labels, err := b.CreateBucket([]byte("labels"))
			require.NoError(t, err)
			require.NoError(t, labels.Put([]byte("a"), nil))
		}
		return nil
	}))
	require.NoError(t, db.Update(func(tx *bbolt.Tx) error {
		for n := 0; n < many; n += 4 {
			containers := tx.Bucket([]byte("v1")).Bucket(fmt.Appendf(nil, "namespace-%d", n%3)).Bucket([]byte("containers"))
			require.NoError(t, containers.DeleteBucket(fmt.Appendf(nil, "container-%d", n)))
		}
		return nil
	}))
	require.NoError(t, db.Close())
	text = []byte(testkit.Content(t, name))
	return text, name
}

// same compares a bucket with bbolt's view of it.
func same(t *testing.T, path string, want *bbolt.Bucket, have *Bucket) {
	t.Helper()
	values, buckets := 0, 0
	require.NoError(t, want.ForEach(func(k, v []byte) error {
		if v == nil {
			buckets++
			below := have.Below(string(k))
			require.NotNil(t, below, "%s/%s", path, k)
			same(t, path+"/"+string(k), want.Bucket(k), below)
			return nil
		}
		values++
		assert.Equal(t, string(v), have.Value(string(k)), "%s/%s", path, k)
		return nil
	}))
	assert.Len(t, have.values, values, path)
	assert.Len(t, have.Buckets(), buckets, path)
}

// Buckets, values and free pages equal those that bbolt reads.
func TestDatabaseReaderMatchesBbolt(t *testing.T) {
	for name, c := range map[string]struct {
		pageSize, many int
		noFreelist     bool
	}{
		"empty": {4096, 0, false}, "small": {4096, 3, false}, "branches": {4096, 500, false}, "small pages": {1024, 300, false},
		"large pages": {1 << 16, 40, false}, "no list of free pages": {4096, 100, true}, "a list of many free pages": {512, 9000, false},
	} {
		t.Run(name, func(t *testing.T) {
			text, file := written(t, c.pageSize, c.many, c.noFreelist)
			have, err := parse(bytes.NewReader(text), int64(len(text)))
			require.NoError(t, err)
			db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true, PageSize: c.pageSize})
			require.NoError(t, err)
			defer db.Close()
			require.NoError(t, db.View(func(tx *bbolt.Tx) error {
				names := 0
				require.NoError(t, tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
					names++
					same(t, string(name), b, have.Below(string(name)))
					return nil
				}))
				assert.Len(t, have.Buckets(), names)
				var free []int64
				for id := 2; ; id++ {
					page, err := tx.Page(id)
					require.NoError(t, err)
					if page == nil {
						break
					}
					if page.Type == "free" {
						free = append(free, int64(id*c.pageSize))
						continue
					}
					id += page.OverflowCount
				}
				assert.Equal(t, free, have.Free)
				assert.EqualValues(t, c.pageSize, have.PageSize)
				return nil
			}))
		})
	}
}

// changed returns a copy of a database with another value in both meta pages, and
// with valid checksums.
func changed(text []byte, field int, value uint64) []byte {
	text = bytes.Clone(text)
	for page := range 2 {
		m := text[page*4096+headerSize:]
		binary.LittleEndian.PutUint64(m[field:], value)
		sum := fnv.New64a()
		sum.Write(m[:56])
		binary.LittleEndian.PutUint64(m[56:], sum.Sum64())
	}
	return text
}

func TestDamagedDatabasesAreErrors(t *testing.T) {
	text, _ := written(t, 4096, 3, false)
	at := func(page uint64, offset int, value ...byte) []byte {
		text := bytes.Clone(text)
		copy(text[int(page)*4096+offset:], value)
		return text
	}
	m, err := newestMeta(text)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		text []byte
		want string
	}{
		"empty":               {nil, "the file is not a bbolt database, or its beginning is damaged"},
		"no database":         {[]byte(strings.Repeat("no database", 1000)), "the file is not a bbolt database, or its beginning is damaged"},
		"a part of a page":    {text[:1000], "the file has 0 of 22 pages: it was cut off"},
		"cut off":             {text[:3*4096], "the file has 3 of 24 pages: it was cut off"},
		"a root out of range": {changed(text, 16, 1<<60), "page 1152921504606846976 is not between 2 and 23"},
		"more pages":          {changed(text, 40, 1<<62), "the file has 32 of 4611686018427387904 pages: it was cut off"},
		"a root that is meta": {changed(text, 16, 1), "page 1 is not between 2 and 23"},
		"another number":      {at(m.root, 0, 9, 9), "page 22 has the number 2313"},
		"another kind":        {at(m.root, 8, 0x20), "page 22 has the kind 0x20, neither branch nor leaf"},
		"pages that go on":    {at(m.root, 12, 0xFF, 0xFF, 0xFF, 0xFF), "page 22 goes on for 4294967295 pages, but the file has only 1"},
		"many elements":       {at(m.root, 10, 0xFF, 0xFF), "page 22 has no room for 65535 elements"},
		"an element outside":  {at(m.root, 16+8, 0xFF, 0xFF, 0xFF, 0xFF), "page 22 has element 0 at 32 to 4294967343 of 4096 bytes"},
		"a free page in use":  {changed(text, 32, m.root), "page 22 is used twice"},
		"no list of free":     {at(m.freelist, 8, leafKind), "page 23 does not list the free pages: its kind is 0x2, its count 7"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(bytes.NewReader(c.text), int64(len(c.text)))
			require.EqualError(t, err, c.want)
		})
	}
	if assert.NotZero(t, m.freelist) {
		damaged := at(m.root, 8, branchKind)
		_, err = parse(bytes.NewReader(damaged), int64(len(damaged)))
		require.Error(t, err, "a leaf page with the kind of a branch page must be an error")
	}
	spoiled := bytes.Clone(text)
	spoiled[headerSize+3] ^= 1 // damages the first meta page; the second stays valid
	_, err = parse(bytes.NewReader(spoiled), int64(len(spoiled)))
	require.NoError(t, err)
}

// Reading any truncated or changed file ends with a result or an error.
func TestDamagedDatabasesNeverHangTheReader(t *testing.T) {
	text, _ := written(t, 512, 12, false)
	random := rand.New(rand.NewPCG(2, 3))
	for length := 0; length < len(text); length += 1 + random.IntN(200) {
		_, err := parse(bytes.NewReader(text), int64(length))
		if length < len(text)/4 {
			require.Error(t, err, "%d bytes", length)
		}
	}
	for range 3000 {
		spoiled := bytes.Clone(text)
		for range 1 + random.IntN(20) {
			spoiled[random.IntN(len(spoiled))] ^= 1 << random.IntN(8)
		}
		_, _ = parse(bytes.NewReader(spoiled), int64(len(spoiled))) // a change inside a value is no error
	}
}

// A database of 1 GiB takes the memory of its pages in use, and no more than the limit.
func TestTheSizeOfTheFileTakesNoMemory(t *testing.T) {
	text, _ := written(t, 4096, 300, false)
	m, err := newestMeta(text)
	require.NoError(t, err)
	const pages = metadataMost / 4096
	large := func(text []byte) error {
		name := filepath.Join(t.TempDir(), "meta.db")
		require.NoError(t, os.WriteFile(name, text, 0o600))
		require.NoError(t, os.Truncate(name, metadataMost))
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		assert.Less(t, testkit.Allocated(func() {
			_, err = readLocked(file, func(*os.File) error { return nil })
		}), uint64(32<<20))
		return err
	}
	all := changed(changed(text, 40, pages), 32, unwritten)
	require.NoError(t, large(all))
	binary.LittleEndian.PutUint32(all[m.root*4096+12:], usedMost/4096)
	require.EqualError(t, large(all), "the pages in use have more than 67108864 bytes")
}

func FuzzMetadata(f *testing.F) {
	for _, noFreelist := range []bool{false, true} {
		text, _ := written(f, 512, 2, noFreelist)
		m, err := newestMeta(text)
		require.NoError(f, err)
		text = text[:m.pages*m.pageSize] // a fuzzer is slow with large inputs
		f.Add(text)
		f.Add(text[:len(text)/2])
		f.Add(text[:1024])
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		db, err := parse(bytes.NewReader(text), int64(len(text)))
		if err != nil {
			require.Nil(t, db)
			return
		}
		for _, offset := range db.Free {
			require.LessOrEqual(t, offset+db.PageSize, int64(len(text)))
		}
	})
}
