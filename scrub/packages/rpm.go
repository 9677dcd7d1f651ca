package packages

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"path"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// rpmFolders are the folders in which distributions keep rpm's database.
var rpmFolders = []string{"/var/lib/rpm", "/usr/lib/sysimage/rpm", "/usr/share/rpm"}

// RPM is a package in rpm's database. Its version has the epoch and the release.
type RPM struct {
	Name, Arch, Version string
	Provides            []string
	source, license     string
	files               []rpmFile
}

// rpmFile is a file of a package, with the numbers that rpm has for its flags.
type rpmFile struct {
	name, sum     string
	flags, verify uint32
}

// Flags of files (rpm's rpmfiles.h and rpmvf.h): the package expects people to edit
// it; another program creates it after the installation; rpm verifies its content.
const (
	rpmConfig = 1 << 0
	rpmGhost  = 1 << 6
	rpmDigest = 1 << 0
)

// rpmFormat makes rpm print a package, what it provides, and its files, as parseRPMs
// reads them.
const rpmFormat = `%{NAME}\t%{ARCH}\t%{EVR}\n%{SOURCERPM}\t%{LICENSE}\n[\t%{PROVIDENAME}\n]` +
	`[%{FILEFLAGS}\t%{FILEVERIFYFLAGS}\t%{FILEDIGESTS}\t%{FILENAMES}\n]`

// RPMs returns the packages in rpm's database; none without a database. On a live
// machine its own rpm reads it, because rpm may be running. In an image root no program
// runs and no lock stays, so RPMs reads the database itself.
func RPMs(ctx context.Context, h *host.Host) ([]RPM, error) {
	for _, folder := range rpmFolders {
		for _, form := range rpmForms() {
			there, err := h.Exists(path.Join(folder, form.name))
			switch {
			case err != nil && !isMissing(err):
				return nil, fmt.Errorf("looking for rpm's database: %w", err)
			case there && h.IsLive():
				return askRPM(ctx, h)
			case there:
				all, err := readRPMs(ctx, h, path.Join(folder, form.name), form.read)
				if err != nil {
					return nil, fmt.Errorf("reading the packages in %s: %w", folder, err)
				}
				return all, nil
			}
		}
	}
	return nil, nil
}

func askRPM(ctx context.Context, h *host.Host) ([]RPM, error) {
	out, err := h.Run(ctx, host.Command{Argv: []string{"rpm", "--query", "--all", "--queryformat=" + rpmFormat},
		Env: []string{"LC_ALL=C"}})
	var all []RPM
	if err == nil {
		all, err = parseRPMs(string(out))
	}
	if err != nil {
		return nil, fmt.Errorf("querying rpm for the packages: %w", err)
	}
	return all, nil
}

// parseRPMs reads what rpm prints in rpmFormat. Of a package without files it prints
// "(none)" for each field.
func parseRPMs(said string) ([]RPM, error) {
	var all []RPM
	for line := range strings.Lines(said) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if len(f) == 3 {
			all = append(all, RPM{Name: f[0], Arch: f[1], Version: f[2]})
			continue
		}
		if len(all) == 0 || len(f) == 1 {
			return nil, fmt.Errorf("rpm printed %.80q", line)
		}
		p := &all[len(all)-1]
		if len(f) == 2 && f[0] != "" {
			p.source, p.license = strings.TrimPrefix(f[0], "(none)"), strings.TrimPrefix(f[1], "(none)")
			continue
		}
		if len(f) == 2 {
			p.Provides = append(p.Provides, f[1])
			continue
		}
		flags, err := strconv.ParseUint(f[0], 10, 32)
		verify, err2 := strconv.ParseUint(f[1], 10, 32)
		if f[3] == "(none)" {
			continue
		}
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("rpm printed %.80q: %w", line, err)
		}
		p.files = append(p.files, rpmFile{f[3], f[2], uint32(flags), uint32(verify)})
	}
	return all, nil
}

// eachRPMFile calls do for the files of all packages, except ghosts.
func eachRPMFile(l *lister, do func(owner string, f rpmFile) error) error {
	all, err := RPMs(l.ctx, l.h)
	if err != nil {
		return err
	}
	for _, p := range all {
		for _, f := range p.files {
			if !path.IsAbs(f.name) || f.flags&rpmGhost != 0 {
				continue
			}
			if err := do(p.Name, f); err != nil {
				return err
			}
		}
	}
	return nil
}

func rpmFiles(l *lister) error {
	return eachRPMFile(l, func(owner string, f rpmFile) error { return l.add(owner, f.name) })
}

// rpmSums adds the checksums of all files. A file whose content rpm does not verify
// has none, because programs of its package rewrite it.
func rpmSums(l *lister, all Originals) error {
	return eachRPMFile(l, func(owner string, f rpmFile) error {
		if f.verify&rpmDigest == 0 {
			return nil
		}
		return all.add(l, owner, f.name, f.sum, f.flags&rpmConfig != 0)
	})
}

func rpmInstalled(ctx context.Context, h *host.Host, all Installed) error {
	rpms, err := RPMs(ctx, h)
	for _, p := range rpms {
		all.add(p.Name, Package{p.Name, p.Version, p.source, p.license})
	}
	return err
}

// sqlite reads the tables of an SQLite database (https://www.sqlite.org/fileformat2.html).
type sqlite struct {
	*rpmParts
	page   int64            // bytes of a page
	usable int              // bytes of a page that SQLite uses
	newer  map[int64][]byte // pages in the log of writes
}

// readSQLite reads the table Packages: a number and a header in each row.
func readSQLite(r *rpmParts, each func([]byte) error) error {
	head, err := r.part(0, 100)
	if err != nil {
		return err
	}
	db := &sqlite{rpmParts: r, page: int64(binary.BigEndian.Uint16(head[16:]))}
	if db.page == 1 {
		db.page = 1 << 16
	}
	db.usable = int(db.page) - int(head[20])
	const utf8 = 1
	if string(head[:16]) != "SQLite format 3\x00" || db.page < 512 || bits.OnesCount(uint(db.page)) != 1 ||
		head[59] != utf8 || db.usable < 480 {
		return errDamaged
	}
	db.readLog()
	root := int64(0)
	err = db.table(1, 0, func(row [][]byte) error { // of the schema: type, name, table, page, SQL
		if len(row) >= 5 && string(row[0]) == "table" && string(row[1]) == "Packages" && len(row[3]) <= 4 {
			root = int64(bigEndian(row[3]))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return db.table(root, 0, func(row [][]byte) error {
		if len(row) != 2 {
			return errDamaged
		}
		return each(row[1])
	})
}

func bigEndian(data []byte) (n uint64) {
	for _, b := range data {
		n = n<<8 | uint64(b)
	}
	return n
}

// readLog finds the pages of complete transactions in the log: its frames continue a
// checksum, and the last frame of a transaction has the size of the database.
func (db *sqlite) readLog() {
	const head, frame = 32, 24
	db.newer = map[int64][]byte{}
	if len(db.log) < head {
		return
	}
	var order binary.ByteOrder = binary.LittleEndian
	if db.log[3]&1 == 1 {
		order = binary.BigEndian
	}
	var a, b uint32
	sum := func(data []byte) {
		for ; len(data) >= 8; data = data[8:] {
			a += order.Uint32(data) + b
			b += order.Uint32(data[4:]) + a
		}
	}
	holds := func(sums []byte) bool {
		return a == binary.BigEndian.Uint32(sums) && b == binary.BigEndian.Uint32(sums[4:])
	}
	sum(db.log[:24])
	if !holds(db.log[24:]) || bigEndian(db.log[8:12]) != uint64(db.page) {
		return
	}
	pages := map[int64][]byte{} // of the transaction
	for rest := db.log[head:]; int64(len(rest)) >= frame+db.page; rest = rest[frame+db.page:] {
		sum(rest[:8])
		sum(rest[frame : frame+db.page])
		if !holds(rest[16:]) || string(rest[8:16]) != string(db.log[16:24]) {
			return
		}
		pages[int64(bigEndian(rest[:4]))] = rest[frame : frame+db.page]
		if bigEndian(rest[4:8]) != 0 {
			maps.Copy(db.newer, pages)
			clear(pages)
		}
	}
}

func (db *sqlite) read(number int64) ([]byte, error) {
	if page, ok := db.newer[number]; ok {
		return page, db.take(db.page)
	}
	return db.part((number-1)*db.page, db.page)
}

// table calls each for the rows below a page of a table's tree.
func (db *sqlite) table(number int64, depth int, each func([][]byte) error) error {
	const leaf, branch, deepest = 13, 5, 20
	page, err := db.read(number)
	if err != nil {
		return err
	}
	head := page
	if number == 1 {
		head = page[100:]
	}
	places := head[8:]
	if head[0] == branch {
		places = head[12:]
	}
	count := int(binary.BigEndian.Uint16(head[3:]))
	if head[0] != leaf && head[0] != branch || 2*count > len(places) || depth > deepest {
		return errDamaged
	}
	for i := range count {
		at := int(binary.BigEndian.Uint16(places[2*i:]))
		if at > db.usable-4 {
			return errDamaged
		}
		if head[0] == branch {
			err = db.table(int64(bigEndian(page[at:at+4])), depth+1, each)
		} else {
			err = db.row(page[at:db.usable], each)
		}
		if err != nil {
			return err
		}
	}
	if head[0] == branch {
		return db.table(int64(bigEndian(head[8:12])), depth+1, each)
	}
	return nil
}

// row reads a row: its size, its number, its begin, and the page with the rest.
func (db *sqlite) row(cell []byte, each func([][]byte) error) error {
	total, cell := varint(cell)
	_, cell = varint(cell)
	here, least := total, (db.usable-12)*32/255-23
	if total < 0 || total > rpmHeaderMost {
		return errDamaged
	}
	if most := db.usable - 35; total > most {
		here = least + (total-least)%(db.usable-4)
		if here > most {
			here = least
		}
	}
	if here > len(cell) || here < total && here+4 > len(cell) {
		return errDamaged
	}
	data := append([]byte(nil), cell[:here]...)
	for next := cell[here:]; len(data) < total; {
		page, err := db.read(int64(bigEndian(next[:4])))
		if err != nil {
			return err
		}
		data = append(data, page[4:min(db.usable, 4+total-len(data))]...)
		next = page
	}
	row, err := columns(data)
	if err != nil {
		return err
	}
	return each(row)
}

// columns reads a record: the size of its head, the types in the head, the values.
func columns(data []byte) ([][]byte, error) {
	size, types := varint(data)
	if size < len(data)-len(types) || size > len(data) {
		return nil, errDamaged
	}
	types = types[:size-(len(data)-len(types))]
	values := data[size:]
	var row [][]byte
	for len(types) > 0 {
		var kind int
		kind, types = varint(types)
		size := []int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}[min(max(kind, 0), 11)]
		if kind >= 12 {
			size = (kind - 12) / 2
		}
		if size > len(values) {
			return nil, errDamaged
		}
		row, values = append(row, values[:size]), values[size:]
	}
	return row, nil
}

// varint reads a number of one to nine bytes, and returns the rest; -1 and no rest if it is cut.
func varint(data []byte) (int, []byte) {
	n := 0
	for i, b := range data[:min(8, len(data))] {
		n = n<<7 | int(b&0x7f)
		if b < 0x80 {
			return n, data[i+1:]
		}
	}
	if len(data) < 9 {
		return -1, nil
	}
	return n<<8 | int(data[8]), data[9:]
}
