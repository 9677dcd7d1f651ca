package disk

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
)

// volumeBase is added to the numbers of logical volumes. No partition table of Linux
// has so many partitions.
const volumeBase = 1000

// findVolumes reads the logical volumes of all physical volumes of the disk, by their
// metadata and never by a name that the machine may have too. What LVM says about them
// is in lvm2's lib/format_text.
func (l *Layout) findVolumes(r io.ReaderAt) {
	physical := map[string]physicalVolume{}
	groups := map[string]section{}
	for _, p := range l.Partitions {
		if p.Kind != KindLVM {
			continue
		}
		pv, text, err := readPV(p.in(r))
		if pv.id != "" {
			pv.Partition = p
			physical[pv.id] = pv
		}
		if err != nil {
			l.note("partition %s: reading the metadata of LVM: %v", p, err)
			continue
		}
		for name, group := range text.sections {
			// LVM may leave an old text in some physical volumes.
			if group.number("seqno") >= groups[name].number("seqno") {
				groups[name] = group
			}
		}
	}
	for _, group := range groups {
		for _, described := range group.section("physical_volumes").sections {
			if pv, here := physical[described.id()]; here {
				l.at(pv.Number).Opened = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		for _, volume := range slices.Sorted(maps.Keys(groups[name].section("logical_volumes").sections)) {
			l.addVolume(r, name, volume, groups[name], physical)
		}
	}
}

// addVolume adds a logical volume, unless it is a hidden part of another one. Of those
// that are too many, the first says so.
func (l *Layout) addVolume(r io.ReaderAt, group, name string, g section, physical map[string]physicalVolume) {
	own := g.section("logical_volumes").section(name)
	if !slices.Contains(own.list("status"), "VISIBLE") || len(l.Volumes) > mostVolumes {
		return
	}
	p := Partition{Number: volumeBase + 1 + len(l.Volumes), Volume: show.Line(group + "/" + name)}
	extents, err := extentsOf(own, g, physical)
	taken := slices.Clone(extents)
	for _, v := range l.Volumes {
		taken = append(taken, v.Extents...)
	}
	switch {
	case len(l.Volumes) == mostVolumes:
		err = fmt.Errorf("only %d logical volumes of a disk are read", mostVolumes)
	case total(merged(taken)) < total(taken): // a copy would be larger than the disk
		err = errors.New("another volume, or another part of it, is at the same place")
	}
	if err != nil {
		p.Elsewhere = err.Error()
		l.Volumes = append(l.Volumes, p)
		return
	}
	p.Extents, p.Range = extents, Range{extents[0].Offset, total(extents)}
	in := io.NewSectionReader(pieces{r, p.Extents}, 0, p.Length)
	p.recognize(in)
	p.Dirty = unreplayed(p.Kind, in)
	l.Volumes = append(l.Volumes, p)
}

// extentsOf are the places of a linear volume on the disk, in the volume's order.
func extentsOf(volume, group section, physical map[string]physicalVolume) ([]Range, error) {
	extent := group.number("extent_size") * 512
	count := volume.number("segment_count")
	if extent <= 0 || extent > 1<<40 || count <= 0 || count > mostRanges {
		return nil, errors.New("its metadata is damaged")
	}
	var all []Range
	for n := range count {
		s := volume.section("segment" + strconv.FormatInt(n+1, 10))
		stripes := s.list("stripes")
		length := s.number("extent_count")
		switch kind := strings.Join(s.list("type"), ""); {
		case kind == "striped" && s.number("stripe_count") > 1:
			return nil, errors.New("it is striped")
		case kind != "striped":
			return nil, fmt.Errorf("it is of the type %s", show.Line(cmp.Or(kind, "unknown")))
		case len(stripes) != 2 || length <= 0 || length > 1<<40/extent<<10:
			return nil, errors.New("its metadata is damaged")
		}
		described := group.section("physical_volumes").section(stripes[0])
		pv, here := physical[described.id()]
		if !here {
			return nil, errors.New("a part of it is on another disk")
		}
		start := described.number("pe_start") * 512
		first, err := strconv.ParseInt(stripes[1], 10, 64)
		at := Range{pv.Offset + start + first*extent, length * extent}
		if err != nil || first < 0 || first > 1<<40 || start < 0 || at.Length <= 0 || at.Offset < pv.Offset ||
			at.End() > pv.End() {
			return nil, errors.New("its metadata is damaged")
		}
		if n := len(all); n > 0 && all[n-1].End() == at.Offset {
			all[n-1].Length += at.Length
		} else {
			all = append(all, at)
		}
	}
	return all, nil
}

// pieces is a volume that lies in several places of a disk.
type pieces struct {
	io.ReaderAt
	list []Range
}

func (v pieces) ReadAt(p []byte, off int64) (n int, err error) {
	for _, r := range v.list {
		if off >= r.Length {
			off -= r.Length
			continue
		}
		part := p[n:min(int64(len(p)), int64(n)+r.Length-off)]
		got, err := v.ReaderAt.ReadAt(part, r.Offset+off)
		n += got
		if got < len(part) {
			return n, cmp.Or(err, io.ErrUnexpectedEOF)
		}
		if off = 0; n == len(p) {
			return n, nil
		}
	}
	return n, io.EOF
}

// physicalVolume is a partition with its identifier in LVM.
type physicalVolume struct {
	Partition
	id string
}

// mostMetadata limits the text of a volume group, and mostVolumes the volumes that are
// looked into. LVM's own area has 1 MiB.
const (
	mostMetadata = 4 << 20
	mostVolumes  = 256
)

var errLVM = errors.New("damaged")

// readPV reads the identifier of a physical volume and the newest text about its group.
// A physical volume outside of a group has no text, and one in a group may have none.
func readPV(r io.ReaderAt) (physicalVolume, section, error) {
	le := binary.LittleEndian
	for sector := int64(0); sector < 4; sector++ {
		label, err := bytesAt(r, sector*512, 512)
		if err != nil || string(label[:8]) != "LABELONE" || string(label[24:32]) != "LVM2 001" {
			continue
		}
		at := le.Uint32(label[20:])
		if at > 512-40 || lvmSum(label[20:]) != le.Uint32(label[16:]) {
			return physicalVolume{}, section{}, errLVM
		}
		pv := physicalVolume{id: string(label[at : at+32])}
		// Two lists follow, each with a zero at its end: places of data and of metadata.
		list, lists := label[at+40:], 0
		for len(list) >= 16 {
			offset, size := le.Uint64(list), le.Uint64(list[8:])
			list = list[16:]
			switch {
			case offset == 0:
				lists++
			case lists == 1:
				text, err := readMetadata(r, offset, size)
				return pv, text, err
			}
			if lists == 2 {
				break
			}
		}
		return pv, section{}, nil
	}
	return physicalVolume{}, section{}, errLVM
}

// readMetadata reads the text that the header of a metadata area names. The area is a
// ring: a text can begin at its end and continue after the header.
func readMetadata(r io.ReaderAt, offset, size uint64) (section, error) {
	le := binary.LittleEndian
	if offset > 1<<50 || size > 1<<40 || size < 1024 {
		return section{}, errLVM
	}
	header, err := bytesAt(r, int64(offset), 512)
	if err != nil {
		return section{}, err
	}
	if string(header[4:20]) != " LVM2 x[5A%r0N*>" || lvmSum(header[4:]) != le.Uint32(header) {
		return section{}, errLVM
	}
	at, length := le.Uint64(header[40:]), le.Uint64(header[48:])
	if at == 0 || length == 0 {
		return section{}, nil // not in a group
	}
	if at < 512 || at >= size || length > min(size-512, mostMetadata) {
		return section{}, errLVM
	}
	first := min(length, size-at)
	text, err := bytesAt(r, int64(offset+at), int(first))
	if err == nil && first < length {
		var rest []byte
		rest, err = bytesAt(r, int64(offset)+512, int(length-first))
		text = append(text, rest...)
	}
	if err != nil {
		return section{}, err
	}
	if lvmSum(text) != le.Uint32(header[56:]) {
		return section{}, errLVM
	}
	return parseLVM(text)
}

// lvmSum is LVM's checksum: a CRC-32 with its own start and without the last inversion.
func lvmSum(p []byte) uint32 { return ^crc32.Update(^uint32(0xf597a6cf), crc32.IEEETable, p) }

// section is a part of LVM's text: names with values or with sections.
type section struct {
	sections map[string]section
	values   map[string][]string
}

func (s section) section(name string) section { return s.sections[name] }
func (s section) list(name string) []string   { return s.values[name] }
func (s section) number(name string) (n int64) {
	if v := s.values[name]; len(v) == 1 {
		n, _ = strconv.ParseInt(v[0], 10, 64) // 0 is refused where it matters
	}
	return n
}

// id is the identifier of a physical volume that a group's text describes, as its label has it.
func (s section) id() string { return strings.ReplaceAll(strings.Join(s.list("id"), ""), "-", "") }

// parseLVM reads the text of a group.
func parseLVM(text []byte) (section, error) {
	words, err := lvmWords(text)
	if err != nil {
		return section{}, err
	}
	s, rest, err := parseSection(words, 0)
	if err == nil && len(rest) > 0 {
		err = errLVM
	}
	return s, err
}

// deepest is how deep sections are in LVM's text, and more.
const deepest = 8

func parseSection(words []string, depth int) (section, []string, error) {
	s := section{map[string]section{}, map[string][]string{}}
	for len(words) > 0 && words[0] != "}" {
		if len(words) < 3 || depth > deepest {
			return s, nil, errLVM
		}
		name, kind := words[0], words[1]
		words = words[2:]
		switch {
		case kind == "{":
			inner, rest, err := parseSection(words, depth+1)
			if err != nil || len(rest) == 0 {
				return s, nil, errLVM
			}
			s.sections[name], words = inner, rest[1:]
		case kind == "=" && words[0] == "[":
			end := slices.Index(words, "]")
			if end < 0 {
				return s, nil, errLVM
			}
			s.values[name], words = words[1:end], words[end+1:]
		case kind == "=":
			s.values[name], words = words[:1], words[1:]
		default:
			return s, nil, errLVM
		}
	}
	return s, words, nil
}

// lvmWord matches comments, texts, signs and words in LVM's text, and an open quotation mark.
var lvmWord = show.Regexp(`(?s)#[^\n]*|"(?:\\.|[^"\\])*"|[{}\[\]=]|[^ \t\n,{}\[\]=#"\x00]+|"`)

// lvmWords are the names, values and signs of LVM's text, without quotation marks,
// commas and comments.
func lvmWords(text []byte) (words []string, err error) {
	for _, word := range lvmWord().FindAllString(string(text), -1) {
		switch {
		case word == `"`:
			return nil, errLVM
		case word[0] == '"':
			words = append(words, word[1:len(word)-1])
		case word[0] != '#':
			words = append(words, word)
		}
	}
	return words, nil
}
