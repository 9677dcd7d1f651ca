package packages

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"math/bits"
	"path"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// rpmForms are the forms of rpm's database, by the name of its file: SQLite, Berkeley
// DB and rpm's own. read calls each for the header of every package.
func rpmForms() []rpmForm {
	return []rpmForm{{"rpmdb.sqlite", readSQLite}, {"Packages", readBerkeley}, {"Packages.db", readNDB}}
}

type rpmForm struct {
	name string
	read func(r *rpmParts, each func(header []byte) error) error
}

// Limits of a database: bytes of its file, and of a package's header (rpm's own).
const (
	rpmMost       = 1 << 30
	rpmHeaderMost = 256 << 20
)

// errDamaged is the error for everything that rpm itself would not write.
var errDamaged = errors.New(`the database is damaged: run "rpmdb --rebuilddb" on the machine`)

// rpmParts reads parts of a database. What it reads and what is kept of it may have
// eight times the file's size, which a sound file never needs: so circles of references
// and names that repeat a long folder in a hostile file end.
type rpmParts struct {
	ctx        context.Context
	in         io.ReaderAt
	size, left int64
	log        []byte // of SQLite: what was written after the last checkpoint
}

func (r *rpmParts) take(size int64) error {
	if r.left -= size; r.left < 0 {
		return errDamaged
	}
	return r.ctx.Err()
}

func (r *rpmParts) part(at, size int64) ([]byte, error) {
	if at < 0 || size < 0 || size > rpmHeaderMost || at > r.size-size {
		return nil, errDamaged
	}
	if err := r.take(size); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	_, err := r.in.ReadAt(data, at)
	return data, err
}

// readRPMs reads the database of an image root.
func readRPMs(
	ctx context.Context, h *host.Host, name string, read func(*rpmParts, func([]byte) error) error,
) ([]RPM, error) {
	if undo, err := h.Files.Lstat(name + "-journal"); err == nil && undo.Size() > 0 {
		return nil, fmt.Errorf("an interrupted rpm left %s-journal: run \"rpm --query --all\" on the machine",
			path.Base(name))
	}
	log, err := content(h, name+"-wal")
	if err != nil && !isMissing(err) {
		return nil, err
	}
	in, err := h.Files.Open(name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > rpmMost {
		return nil, fmt.Errorf("%s has more than %d bytes", path.Base(name), rpmMost)
	}
	return parseRPMDatabase(&rpmParts{ctx: ctx, in: in, size: info.Size(), log: []byte(log)}, read)
}

func parseRPMDatabase(r *rpmParts, read func(*rpmParts, func([]byte) error) error) ([]RPM, error) {
	r.left = 8 * (r.size + int64(len(r.log)))
	var all []RPM
	err := read(r, func(header []byte) error {
		p, err := r.header(header)
		all = append(all, p)
		return err
	})
	return all, err
}

// Tags of a header (rpm's rpmtag.h), and the types of their values.
const (
	tagName, tagVersion, tagRelease, tagEpoch, tagArch = 1000, 1001, 1002, 1003, 1022
	tagLicense, tagSource                              = 1014, 1044
	tagDigests, tagFlags, tagVerify, tagProvides       = 1035, 1037, 1045, 1047
	tagFolderOf, tagBase, tagFolder                    = 1116, 1117, 1118

	rpmInt32, rpmText, rpmTexts = 4, 6, 8
)

// header reads a package's header: the number of entries, the number of bytes of
// values, the entries (tag, type, offset, count), the values.
func (r *rpmParts) header(header []byte) (RPM, error) {
	number := func(at int) int { return int(binary.BigEndian.Uint32(header[at:])) }
	if len(header) < 8 || len(header) != 8+16*number(0)+number(4) {
		return RPM{}, errDamaged
	}
	texts, numbers := map[int][]string{}, map[int][]uint32{}
	values := header[8+16*number(0):]
	for at := 8; at < len(header)-len(values); at += 16 {
		tag, kind, from, count := number(at), number(at+4), number(at+8), number(at+12)
		if from > len(values) || count > len(values)-from {
			return RPM{}, errDamaged
		}
		data := values[from:]
		if tag < tagName || tag > tagFolder {
			continue
		}
		switch {
		case kind == rpmText || kind == rpmTexts:
			texts[tag] = nil
			for range count {
				text, rest, ended := bytes.Cut(data, []byte{0})
				if err := r.take(int64(len(text))); err != nil || !ended {
					return RPM{}, cmp.Or(err, errDamaged)
				}
				texts[tag], data = append(texts[tag], string(text)), rest
			}
		case kind == rpmInt32:
			if err := r.take(4 * int64(count)); err != nil || count > len(data)/4 {
				return RPM{}, cmp.Or(err, errDamaged)
			}
			numbers[tag] = make([]uint32, count)
			for i := range numbers[tag] {
				numbers[tag][i] = binary.BigEndian.Uint32(data[4*i:])
			}
		}
	}
	first := func(tag int) string { return strings.Join(texts[tag][:min(1, len(texts[tag]))], "") }
	p := RPM{
		Name: first(tagName), Arch: first(tagArch), Version: first(tagVersion) + "-" + first(tagRelease),
		Provides: texts[tagProvides], source: first(tagSource), license: first(tagLicense),
	}
	if epoch := numbers[tagEpoch]; len(epoch) > 0 {
		p.Version = fmt.Sprintf("%d:%s", epoch[0], p.Version)
	}
	names, folders, of := texts[tagBase], texts[tagFolder], numbers[tagFolderOf]
	sums, flags, verify := texts[tagDigests], numbers[tagFlags], numbers[tagVerify]
	if n := len(names); p.Name == "" || len(of) != n || len(sums) != n || len(flags) != n || len(verify) != n {
		return RPM{}, errDamaged
	}
	for i, name := range names {
		if int(of[i]) >= len(folders) {
			return RPM{}, errDamaged
		}
		if err := r.take(int64(len(folders[of[i]]))); err != nil {
			return RPM{}, err
		}
		p.files = append(p.files, rpmFile{folders[of[i]] + name, sums[i], flags[i], verify[i]})
	}
	return p, nil
}

// readNDB reads rpm's own form (rpm's lib/backend/ndb/rpmpkg.c): pages of slots, each
// with the place and size of a package's block, which has a checksum at its end.
func readNDB(r *rpmParts, each func([]byte) error) error {
	const slot, page, tail = 16, 4096, 12
	number := func(data []byte, i int) int64 { return int64(binary.LittleEndian.Uint32(data[4*i:])) }
	head, err := r.part(0, 2*slot)
	if err != nil {
		return err
	}
	slots, err := r.part(0, number(head, 3)*page)
	if err != nil {
		return err
	}
	if string(head[:4]) != "RpmP" || number(head, 1) != 0 {
		return errDamaged
	}
	for at := 2 * slot; at < len(slots); at += slot {
		s := slots[at:]
		if string(s[:4]) != "Slot" {
			return errDamaged
		}
		if number(s, 1) == 0 {
			continue // it is free
		}
		block, err := r.part(number(s, 2)*slot, number(s, 3)*slot)
		if err != nil {
			return err
		}
		end := len(block) - tail
		if end < slot || string(block[:4]) != "BlbS" || number(block, 1) != number(s, 1) ||
			number(block[end:], 0) != int64(adler32.Checksum(block[:end])) {
			return errDamaged
		}
		size := number(block, 3)
		if size > int64(end-slot) {
			return errDamaged
		}
		if err := each(block[slot : slot+size]); err != nil {
			return err
		}
	}
	return nil
}

// readBerkeley reads the hash of Berkeley DB (its db_page.h): pages of keys and values,
// whose long values are chains of other pages. The value of one key is a short counter.
func readBerkeley(r *rpmParts, each func([]byte) error) error {
	const (
		headSize                                  = 26
		unsortedPage, chainPage, metaPage, hashed = 2, 7, 8, 13
		chained                                   = 3 // a value in a chain of pages
		inPage                                    = 1
	)
	meta, err := r.part(0, 512)
	if err != nil {
		return err
	}
	var order binary.ByteOrder = binary.LittleEndian
	if meta[12] == 0 {
		order = binary.BigEndian
	}
	size, last := order.Uint32(meta[20:]), order.Uint32(meta[32:])
	if order.Uint32(meta[12:]) != 0x61561 || meta[24] != 0 || meta[25] != metaPage || size < 512 || size > 1<<16 ||
		bits.OnesCount32(size) != 1 {
		return errDamaged
	}
	page := func(number uint32) ([]byte, error) { return r.part(int64(number)*int64(size), int64(size)) }
	for number := uint32(1); number <= last; number++ {
		p, err := page(number)
		if err != nil {
			return err
		}
		if p[25] != unsortedPage && p[25] != hashed {
			continue
		}
		count := int(order.Uint16(p[20:]))
		if headSize+2*count > len(p) {
			return errDamaged
		}
		for i := 1; i < count; i += 2 { // of keys and values, the values
			at, end := int(order.Uint16(p[headSize+2*i:])), int(order.Uint16(p[headSize+2*i-2:]))
			if at >= end || end > len(p) {
				return errDamaged
			}
			if p[at] == inPage && end-at == 1+4 {
				continue
			}
			if p[at] != chained || end-at < 12 {
				return errDamaged
			}
			var header []byte
			length := min(order.Uint32(p[at+8:]), rpmHeaderMost)
			for next := order.Uint32(p[at+4:]); next != 0; {
				c, err := page(next)
				if err != nil {
					return err
				}
				used := headSize + int(order.Uint16(c[22:]))
				if c[25] != chainPage || used > len(c) {
					return errDamaged
				}
				if header, next = append(header, c[headSize:used]...), order.Uint32(c[16:]); len(header) > int(length) {
					return errDamaged
				}
			}
			if err := each(header); err != nil {
				return err
			}
		}
	}
	return nil
}
