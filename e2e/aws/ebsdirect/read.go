package ebsdirect

import (
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// How long tokens are valid (UG, ebsapi-elements.html and readsnapshots.html).
const (
	blockTokens = 7 * 24 * time.Hour
	pageTokens  = time.Hour
)

var snapshotID = regexp.MustCompile(`^snap-([0-9a-f]{8}|[0-9a-f]{17})$`)

func wellFormed(id string) bool { return snapshotID.MatchString(id) }

// token is a block that a list named.
type token struct {
	snapshot string
	index    int32
	expires  time.Time
}

// page is where the next page of a list begins.
type page struct {
	of      string
	from    int32
	expires time.Time
	empty   bool
}

// readable returns a completed snapshot that the caller may read.
func (d *Double) readable(id string) (*Snapshot, *Failure) {
	s := d.find(id)
	switch {
	case !wellFormed(id):
		return nil, invalid("INVALID_SNAPSHOT_ID", "%q is not the ID of a snapshot", id)
	case s == nil:
		return nil, missing("SNAPSHOT_NOT_FOUND", "the snapshot %s does not exist", id)
	case s.Public: // UG, ebsapi-elements.html: public snapshots are not supported
		return nil, invalid("INVALID_SNAPSHOT_ID", "the snapshot %s is public", id)
	case s.Owner != d.Account: // stricter: no source for shared snapshots
		return nil, denied("UNAUTHORIZED_ACCOUNT", "the snapshot %s belongs to another account", id)
	case s.State != Completed || s.shown > 0: // UG, ebsapi-faq.html
		return nil, invalid("INVALID_SNAPSHOT_ID", "the snapshot %s is not completed", id)
	case s.Encrypted && !d.mayUse(s.Key):
		return nil, denied("DEPENDENCY_ACCESS_DENIED", "the caller may not use the key %s", s.Key)
	}
	return s, nil
}

// list lists the blocks of a snapshot (API, ListSnapshotBlocks).
func (d *Double) list(id string, out http.ResponseWriter, in *http.Request) *Failure {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, failure := d.readable(id)
	if failure != nil {
		return failure
	}
	indexes, next, failure := d.page(id, s.indexes(), in)
	if failure != nil {
		return failure
	}
	d.relist(in, id)
	blocks := []map[string]any{}
	for _, index := range indexes {
		blocks = append(blocks, map[string]any{"BlockIndex": index, "BlockToken": d.token(s, index)})
	}
	d.listed(out, s, "Blocks", blocks, next)
	return nil
}

// changed lists the blocks that differ between two snapshots of a lineage (API,
// ListChangedBlocks).
func (d *Double) changed(id string, out http.ResponseWriter, in *http.Request) *Failure {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	second, failure := d.readable(id)
	if failure != nil {
		return failure
	}
	first, failure := d.readable(in.URL.Query().Get("firstSnapshotId"))
	if failure != nil {
		return failure
	}
	if !related(first, second) {
		return invalid("UNRELATED_SNAPSHOTS", "the snapshots %s and %s are not of one volume", first.ID, second.ID)
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.Concat(first.indexes(), second.indexes()))))
	all = slices.DeleteFunc(all, func(index int32) bool { return first.source(index) == second.source(index) })
	indexes, next, failure := d.page(first.ID+" "+id, all, in)
	if failure != nil {
		return failure
	}
	d.relist(in, first.ID, id)
	blocks := []map[string]any{}
	for _, index := range indexes {
		block := map[string]any{"BlockIndex": index}
		if first.source(index) != nil {
			block["FirstBlockToken"] = d.token(first, index)
		}
		if second.source(index) != nil {
			block["SecondBlockToken"] = d.token(second, index)
		}
		blocks = append(blocks, block)
	}
	d.listed(out, second, "ChangedBlocks", blocks, next)
	return nil
}

// related says whether two snapshots have a common ancestor, or one is the other's.
func related(a, b *Snapshot) bool {
	for x := a; x != nil; x = x.parent {
		for y := b; y != nil; y = y.parent {
			if x == y {
				return true
			}
		}
	}
	return false
}

// relist makes the tokens of earlier lists of a snapshot invalid (UG,
// ebsapi-elements.html).
func (d *Double) relist(in *http.Request, snapshots ...string) {
	if in.URL.Query().Has("pageToken") {
		return
	}
	maps.DeleteFunc(d.tokens, func(_ string, t token) bool { return slices.Contains(snapshots, t.snapshot) })
}

// page cuts a page out of a list.
func (d *Double) page(of string, all []int32, in *http.Request) ([]int32, string, *Failure) {
	query, size, from, empty := in.URL.Query(), 10000, int32(0), false
	if text := query.Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 100 || n > 10000 { // API
			return nil, "", invalid("INVALID_PARAMETER_VALUE", "MaxResults must be from 100 to 10000")
		}
		size = n
	}
	if d.PageMost > 0 {
		size = min(size, d.PageMost)
	}
	if text := query.Get("pageToken"); text != "" {
		p, known := d.pages[text]
		if !known || p.of != of || d.Now().After(p.expires) {
			return nil, "", invalid("INVALID_PAGE_TOKEN", "the page token is not valid, or has expired")
		}
		from, empty = p.from, p.empty
	} else if text := query.Get("startingBlockIndex"); text != "" {
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return nil, "", invalid("INVALID_PARAMETER_VALUE", "StartingBlockIndex must be a number from 0")
		}
		from = int32(n)
	}
	first, _ := slices.BinarySearch(all, from)
	all = all[first:]
	next := page{of: of, expires: d.Now().Add(pageTokens)}
	switch {
	case empty:
		next.from, all = from, nil
	case len(all) > size:
		next.from, next.empty, all = all[size], d.EmptyPages, all[:size]
	default:
		return all, "", nil
	}
	text := base64.StdEncoding.EncodeToString([]byte(random(24)))
	d.pages[text] = next
	return all, text, nil
}

// token makes a token for a block (UG, ebsapi-elements.html).
func (d *Double) token(s *Snapshot, index int32) string {
	text := base64.StdEncoding.EncodeToString([]byte(random(24)))
	d.tokens[text] = token{snapshot: s.ID, index: index, expires: d.Now().Add(blockTokens)}
	return text
}

func (d *Double) listed(out http.ResponseWriter, s *Snapshot, name string, blocks []map[string]any, next string) {
	text := map[string]any{name: blocks, "VolumeSize": s.Size, "BlockSize": BlockSize, "ExpiryTime": d.Now().Add(blockTokens).Unix()}
	if next != "" {
		text["NextToken"] = next
	}
	answer(out, http.StatusOK, text)
}

// get returns a block (API, GetSnapshotBlock).
func (d *Double) get(id string, out http.ResponseWriter, in *http.Request) *Failure {
	index, failure := indexOf(in)
	if failure != nil {
		return failure
	}
	block, sum, failure := d.block(id, index, in.URL.Query().Get("blockToken"))
	if failure != nil {
		return failure
	}
	d.Line.wait(&d.line, len(block))
	for name, value := range map[string]string{
		"X-Amz-Data-Length": strconv.Itoa(BlockSize), "X-Amz-Checksum": sum, "X-Amz-Checksum-Algorithm": "SHA256",
		"Content-Type": "application/octet-stream", "Content-Length": strconv.Itoa(BlockSize),
	} {
		out.Header().Set(name, value)
	}
	_, _ = out.Write(block) // the caller may have closed the connection
	return nil
}

func (d *Double) block(id string, index int32, text string) ([]byte, string, *Failure) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, failure := d.readable(id)
	if failure != nil {
		return nil, "", failure
	}
	t, known := d.tokens[text]
	if !known || t.snapshot != id || t.index != index || d.Now().After(t.expires) {
		return nil, "", invalid("INVALID_BLOCK_TOKEN", "the block token is not valid for block %d of %s, or has expired", index, id)
	}
	from, block := s.source(index), make([]byte, BlockSize)
	if _, err := from.file.ReadAt(block, int64(index)*BlockSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, "", &Failure{http.StatusInternalServerError, "InternalServerException", err.Error(), ""}
	}
	d.used.Fetched += BlockSize
	sum := from.sums[index]
	return block, base64.StdEncoding.EncodeToString(sum[:]), nil
}
