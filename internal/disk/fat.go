package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// fat is a FAT12, FAT16 or FAT32 file system. The source is Microsoft's FAT
// specification.
type fat struct {
	r io.ReaderAt
	// width is the number of bits of an entry: 12, 16 or 32.
	width int
	label string
	// serial is the volume's number as blkid prints it.
	serial string
	// Sizes and places in bytes.
	size, cluster    int64
	table, tableSize int64
	tables           int64
	root, rootSize   int64
	data             int64
	// clusters is the number of clusters. The first one has the number 2.
	clusters    int64
	rootCluster int64
	// state is the byte in which Linux marks a mounted file system.
	state byte
	// mirrored is false if only one of the tables is in use.
	mirrored bool
}

// openFAT reads the boot sector.
func openFAT(r io.ReaderAt) (*fat, error) {
	b, err := bytesAt(r, 0, 512)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	u16 := func(at int) int64 { return int64(le.Uint16(b[at:])) }
	sector, per, reserved, tables := u16(11), int64(b[13]), u16(14), int64(b[16])
	sectors, fatSectors := u16(19), u16(22)
	if sectors == 0 {
		sectors = int64(le.Uint32(b[32:]))
	}
	if fatSectors == 0 {
		fatSectors = int64(le.Uint32(b[36:]))
	}
	switch {
	case b[510] != 0x55 || b[511] != 0xaa || b[0] != 0xeb && b[0] != 0xe9:
		return nil, errors.New("no boot sector")
	case sector != 512 && sector != 1024 && sector != 2048 && sector != 4096:
		return nil, fmt.Errorf("sectors of %d bytes", sector)
	case per == 0 || per&(per-1) != 0 || reserved == 0 || tables == 0 || tables > 4 || fatSectors == 0 || b[21] < 0xf0:
		return nil, errors.New("wrong values in the boot sector")
	}
	f := &fat{
		r: r, size: sectors * sector, cluster: per * sector, mirrored: true,
		table: reserved * sector, tableSize: fatSectors * sector, tables: tables,
		rootSize: (u16(17)*32 + sector - 1) / sector * sector,
	}
	f.root = f.table + tables*f.tableSize
	f.data = f.root + f.rootSize
	if f.clusters = (f.size - f.data) / f.cluster; f.clusters <= 0 {
		return nil, errors.New("no clusters")
	}
	switch {
	case f.clusters < 4085:
		f.width = 12
	case f.clusters < 65525:
		f.width = 16
	default:
		f.width = 32
	}
	f.state, f.label, f.serial = b[37], padded(b[43:54]), serial(b[39:])
	if u16(22) == 0 {
		f.width = 32
		f.rootCluster = int64(le.Uint32(b[44:]))
		f.state, f.label, f.serial = b[65], padded(b[71:82]), serial(b[67:])
		f.mirrored = u16(40)&0x80 == 0
	}
	if (f.clusters+2)*int64(f.width)/8 > f.tableSize || f.clusters > 0x0ffffff5 {
		return nil, fmt.Errorf("%d clusters in a table of %d bytes", f.clusters, f.tableSize)
	}
	return f, nil
}

func serial(p []byte) string { return fmt.Sprintf("%02X%02X-%02X%02X", p[3], p[2], p[1], p[0]) }

// entries calls yield with the entries of the first table, from the one of
// cluster 0 on.
func (f *fat) entries(yield func(n int64, value uint32) error) error {
	const chunk = 48 << 10 // has whole entries of every width
	for start := int64(0); start*8/int64(f.width) < f.clusters+2; start += chunk {
		p, err := bytesAt(f.r, f.table+start, int(min(chunk, f.tableSize-start)))
		if err != nil {
			return err
		}
		first := start * 8 / int64(f.width)
		number := min(int64(len(p))*8/int64(f.width), f.clusters+2-first)
		for i := range number {
			if err := yield(first+i, f.entry(p, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry is the i-th entry in a part of the table.
func (f *fat) entry(p []byte, i int64) uint32 {
	switch f.width {
	case 12:
		v := uint32(p[i*3/2]) | uint32(p[i*3/2+1])<<8
		return v >> (i % 2 * 4) & 0xfff
	case 16:
		return uint32(binary.LittleEndian.Uint16(p[2*i:]))
	}
	return binary.LittleEndian.Uint32(p[4*i:]) & 0x0fffffff
}

// fatFree reads the file allocation table.
func fatFree(r io.ReaderAt, size int64) (*ranges, int64, error) {
	f, err := openFAT(r)
	switch {
	case err != nil:
		return nil, 0, err
	case f.size > size:
		return nil, 0, fmt.Errorf("%d bytes in a partition of %d bytes", f.size, size)
	case f.state&1 != 0:
		return nil, 0, errors.New("not unmounted cleanly")
	case !f.mirrored:
		return nil, 0, errors.New("only one of the file allocation tables is in use")
	}
	if err := f.compareTables(); err != nil {
		return nil, 0, err
	}
	free := &ranges{}
	err = f.entries(func(n int64, value uint32) error {
		switch {
		case n == 1 && (f.width == 16 && value&0xc000 != 0xc000 || f.width == 32 && value&0x0c000000 != 0x0c000000):
			return errors.New("not unmounted cleanly")
		case n >= 2 && value == 0:
			free.add(f.data+(n-2)*f.cluster, f.cluster)
		}
		return nil
	})
	return free, f.size, err
}

// compareTables returns an error if the copies of the table differ: one of them
// is then old.
func (f *fat) compareTables() error {
	const chunk = 64 << 10
	for n := int64(1); n < f.tables; n++ {
		for off := int64(0); off < f.tableSize; off += chunk {
			length := int(min(chunk, f.tableSize-off))
			a, err := bytesAt(f.r, f.table+off, length)
			if err != nil {
				return err
			}
			b, err := bytesAt(f.r, f.table+n*f.tableSize+off, length)
			if err != nil {
				return err
			}
			if string(a) != string(b) {
				return errors.New("the copies of the file allocation table differ")
			}
		}
	}
	return nil
}

// mostClusters limits the length of a folder that is read: FAT allows 2 MiB.
const mostClusters = 4096

// next is the cluster after n in a file, or 0 at the end.
func (f *fat) next(n int64) (int64, error) {
	at, i := n*int64(f.width)/8, int64(0)
	if f.width == 12 { // two entries have three bytes
		at, i = n/2*3, n%2
	}
	p, err := bytesAt(f.r, f.table+at, 4)
	if err != nil {
		return 0, err
	}
	v := int64(f.entry(p, i))
	if v < 2 || v >= f.clusters+2 {
		return 0, nil
	}
	return v, nil
}

// chain returns the bytes of a file from its first cluster on, up to a limit.
func (f *fat) chain(cluster int64, limit int) ([]byte, error) {
	var all []byte
	for range mostClusters {
		if cluster < 2 || cluster >= f.clusters+2 || len(all) >= limit {
			break
		}
		p, err := bytesAt(f.r, f.data+(cluster-2)*f.cluster, int(f.cluster))
		if err != nil {
			return nil, err
		}
		all = append(all, p...)
		if cluster, err = f.next(cluster); err != nil {
			return nil, err
		}
	}
	return all[:min(len(all), limit)], nil
}

// head returns the first bytes of a file, at most limit. The names are in the
// form of a folder entry: 8 and 3 characters in upper case. It returns nil if
// there is no such file.
func (f *fat) head(limit int, names ...string) ([]byte, error) {
	const folder = 2 << 20
	var entries []byte
	var err error
	if f.width == 32 {
		entries, err = f.chain(f.rootCluster, folder)
	} else {
		entries, err = bytesAt(f.r, f.root, int(f.rootSize))
	}
	for i, name := range names {
		if err != nil {
			return nil, err
		}
		cluster, length, found := find(entries, name, i < len(names)-1)
		if !found {
			return nil, nil
		}
		if i == len(names)-1 {
			return f.chain(cluster, min(limit, length))
		}
		entries, err = f.chain(cluster, folder)
	}
	return nil, err
}

func find(entries []byte, name string, isFolder bool) (cluster int64, length int, found bool) {
	le := binary.LittleEndian
	for ; len(entries) >= 32 && entries[0] != 0; entries = entries[32:] {
		attributes := entries[11]
		if string(entries[:11]) != name || attributes&0x08 != 0 || (attributes&0x10 != 0) != isFolder {
			continue // another name, a label, or a part of a long name
		}
		return int64(le.Uint16(entries[26:])) | int64(le.Uint16(entries[20:]))<<16, int(le.Uint32(entries[28:])), true
	}
	return 0, 0, false
}
