package ebsdirect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// startIn has the parameters of StartSnapshot (API).
type startIn struct {
	VolumeSize                          *int64
	ClientToken, Description, KmsKeyArn *string
	ParentSnapshotId                    *string
	Encrypted                           *bool
	Tags                                []Tag
	Timeout                             *int
}

// start is a call of StartSnapshot with a client token, and its result.
type start struct {
	in startIn
	id string
}

func (d *Double) start(_ string, out http.ResponseWriter, call *http.Request) *Failure {
	var in startIn
	decoder := json.NewDecoder(call.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return invalid("INVALID_PARAMETER_VALUE", "the body: %v", err)
	}
	in.Tags = append([]Tag{}, in.Tags...)
	if failure := rules().Refusal("StartSnapshot", in); failure != nil {
		return failure
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	token := text(in.ClientToken)
	if before, known := d.starts[token]; known && token != "" {
		// UG, ebs-direct-api-idempotency.html
		if !reflect.DeepEqual(before.in, in) {
			return failing(http.StatusConflict, "ConflictException", "",
				"the client token was used with other parameters")
		}
		return d.started(out, d.find(before.id))
	}
	s := Snapshot{
		ID: "snap-0" + random(16), Description: text(in.Description), Owner: d.Account, State: Pending, Started: d.Now(), written: d.Now(),
		Size: *in.VolumeSize, Tags: in.Tags, timeout: time.Hour, early: d.NotFoundYet, shown: d.Completing,
	}
	if in.Timeout != nil {
		s.timeout = time.Duration(*in.Timeout) * time.Minute
	}
	if failure := d.check(in, &s); failure != nil {
		return failure
	}
	one, err := d.add(s)
	if err != nil {
		return internal(err)
	}
	d.starts[token] = start{in, s.ID}
	return d.started(out, one)
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// check checks what StartSnapshot needs from the account, and fills in the encryption
// and the parent.
func (d *Double) check(in startIn, s *Snapshot) *Failure {
	// Not documented: the actions of EC2 that make snapshots with tags need this.
	if len(in.Tags) > 0 {
		if failure := d.authorize("ec2:CreateTags", "*"); failure != nil {
			return failure
		}
	}
	if d.Quotas.Pending > 0 && d.pending() >= d.Quotas.Pending { // quotas; API, StartSnapshot: 402
		return failing(http.StatusPaymentRequired, "ServiceQuotaExceededException", "DEPENDENCY_SERVICE_QUOTA_EXCEEDED",
			"too many pending snapshots")
	}
	if in.ParentSnapshotId != nil {
		return d.child(in, s)
	}
	return d.encrypt(in, s)
}

// encrypt decides the encryption of a snapshot without a parent by the table of the
// UG, ebsapis-using-encryption.html.
func (d *Double) encrypt(in startIn, s *Snapshot) *Failure {
	if in.Encrypted != nil && !*in.Encrypted {
		switch {
		case in.KmsKeyArn != nil:
			return invalid("INVALID_PARAMETER_VALUE", "KmsKeyArn and Encrypted=false exclude each other")
		case d.EncryptByDefault:
			return invalid("INVALID_PARAMETER_VALUE", "encryption by default is on: the snapshot must be encrypted")
		}
		return nil
	}
	if in.Encrypted == nil && in.KmsKeyArn == nil && !d.EncryptByDefault {
		return nil
	}
	s.Encrypted, s.Key = true, d.DefaultKey
	if in.KmsKeyArn != nil {
		s.Key = *in.KmsKeyArn
	}
	return d.use(s.Key, forWriting)
}

// child checks the parent of a snapshot by the tables of the UG,
// ebsapis-using-encryption.html. For a key with an unencrypted parent, the table is not
// clear, and the call is refused.
func (d *Double) child(in startIn, s *Snapshot) *Failure {
	parent, failure := d.readable(*in.ParentSnapshotId)
	switch {
	case failure != nil:
		return failure
	case in.Encrypted != nil:
		return invalid("INVALID_PARAMETER_VALUE", "Encrypted and ParentSnapshotId exclude each other")
	case in.KmsKeyArn != nil:
		return invalid("INVALID_PARAMETER_VALUE", "KmsKeyArn and ParentSnapshotId exclude each other")
	case !parent.Encrypted && d.EncryptByDefault:
		return invalid("INVALID_PARAMETER_VALUE", "encryption by default is on, and the parent is not encrypted")
	case s.Size < parent.Size: // not documented
		return invalid("INVALID_VOLUME_SIZE", "the volume is smaller than the parent's")
	}
	s.Parent, s.parent, s.Encrypted, s.Key = parent.ID, parent, parent.Encrypted, parent.Key
	if s.Encrypted { // API, StartSnapshot: a permission for the key of the parent
		return d.use(s.Key, forWriting)
	}
	return nil
}

func (d *Double) pending() int {
	n := 0
	for _, s := range d.all {
		if s.Owner == d.Account && d.find(s.ID).State == Pending {
			n++
		}
	}
	return n
}

func (d *Double) started(out http.ResponseWriter, s *Snapshot) *Failure {
	if s == nil {
		return missing("SNAPSHOT_NOT_FOUND", "the snapshot of this client token was deleted")
	}
	answer(out, http.StatusCreated, map[string]any{
		"SnapshotId": s.ID, "OwnerId": s.Owner, "Status": s.State, "StartTime": s.Started.Unix(), "VolumeSize": s.Size, "BlockSize": BlockSize,
		"Tags": s.Tags, "ParentSnapshotId": s.Parent, "KmsKeyArn": s.Key, "Description": s.Description,
	})
	return nil
}

// writable returns a pending snapshot of the caller.
func (d *Double) writable(id string) (*Snapshot, *Failure) {
	s := d.find(id)
	switch {
	case !wellFormed(id):
		return nil, invalid("INVALID_SNAPSHOT_ID", "%s is not the ID of a snapshot", id)
	case s == nil || s.Owner != d.Account:
		return nil, missing("SNAPSHOT_NOT_FOUND", "the snapshot %s does not exist", id)
	case s.State != Pending: // UG, writesnapshots.html: only pending snapshots
		return nil, invalid("INVALID_SNAPSHOT_ID", "the snapshot %s is %s", id, s.State)
	case s.Encrypted: // API, PutSnapshotBlock: a permission for the key
		return s, d.use(s.Key, forWriting)
	}
	return s, nil
}

// put writes a block (API, PutSnapshotBlock).
func (d *Double) put(id string, out http.ResponseWriter, in *http.Request) *Failure {
	index, failure := indexOf(in)
	if failure != nil {
		return failure
	}
	block, err := readAll(in.Body, in.ContentLength)
	sum := sha256.Sum256(block)
	encoded := base64.StdEncoding.EncodeToString(sum[:])
	length, checksum := in.Header.Get("X-Amz-Data-Length"), in.Header.Get("X-Amz-Checksum")
	switch {
	case err != nil:
		return invalid("INVALID_BLOCK", "reading the block: %v", err)
	case length != strconv.Itoa(BlockSize) || len(block) != BlockSize: // API, PutSnapshotBlock, DataLength
		return invalid("INVALID_BLOCK", "the block has %d bytes and its header says %q; blocks have %d bytes", len(block), length, BlockSize)
	case in.Header.Get("X-Amz-Checksum-Algorithm") != "SHA256":
		return invalid("INVALID_PARAMETER_VALUE", "the checksum algorithm must be SHA256")
	case !sumForm.MatchString(checksum) || checksum != encoded:
		return invalid("INVALID_BLOCK", "the block does not have the checksum %q", checksum)
	case !progressed(in.Header):
		return invalid("INVALID_PARAMETER_VALUE", "the progress must be from 0 to 100")
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, failure := d.writable(id)
	switch {
	case failure != nil:
		return failure
	case s.early > 0:
		s.early--
		return missing("SNAPSHOT_NOT_FOUND", "the snapshot %s does not exist", id)
	case int64(index) >= s.Size<<30/BlockSize: // API, PutSnapshotBlock, BlockIndex
		return invalid("INVALID_BLOCK", "the block %d is outside of a volume of %d GiB", index, s.Size)
	}
	if err := s.keep(index, block, sum, d.Forget); err != nil {
		return internal(err)
	}
	s.written = d.Now()
	d.used.Sent += BlockSize
	out.Header().Set("X-Amz-Checksum", encoded)
	out.Header().Set("X-Amz-Checksum-Algorithm", "SHA256")
	answer(out, http.StatusCreated, struct{}{})
	return nil
}

func progressed(header http.Header) bool {
	text := header.Get("X-Amz-Progress")
	number, err := strconv.Atoi(text)
	return text == "" || err == nil && number >= 0 && number <= 100
}

// complete seals a snapshot (API, CompleteSnapshot). The sealing is asynchronous (UG,
// writesnapshots.html), so a wrong count makes an error of the snapshot, and not of the
// call.
func (d *Double) complete(id string, out http.ResponseWriter, in *http.Request) *Failure {
	count, err := strconv.ParseInt(in.Header.Get("X-Amz-Changedblockscount"), 10, 32)
	if err != nil || count < 0 {
		return invalid("INVALID_PARAMETER_VALUE", "ChangedBlocksCount must be a number from 0")
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, failure := d.writable(id)
	if failure == nil {
		failure = s.summed(in.Header)
	}
	if failure != nil {
		return failure
	}
	if s.State = Completed; int(count) != len(s.sums) {
		s.State, s.Message = Errored, fmt.Sprintf("ChangedBlocksCount is %d, but %d blocks were written", count, len(s.sums))
	}
	answer(out, http.StatusAccepted, map[string]string{"Status": Pending})
	return nil
}

// summed checks the aggregated checksum, which is optional (UG,
// ebsapis-using-checksums.html).
func (s *Snapshot) summed(header http.Header) *Failure {
	sum, algorithm, method := header.Get("X-Amz-Checksum"), header.Get("X-Amz-Checksum-Algorithm"), header.Get("X-Amz-Checksum-Aggregation-Method")
	switch {
	case sum == "" && algorithm == "" && method == "":
		return nil
	case algorithm != "SHA256":
		return invalid("INVALID_PARAMETER_VALUE", "the checksum algorithm must be SHA256")
	case method != "LINEAR":
		return invalid("INVALID_PARAMETER_VALUE", "the aggregation method must be LINEAR")
	case sum != s.linear():
		return invalid("INVALID_PARAMETER_VALUE", "the snapshot does not have the checksum %q", sum)
	}
	return nil
}

// linear is the checksum of the checksums of the written blocks, in order (API,
// CompleteSnapshot).
func (s *Snapshot) linear() string {
	all := sha256.New()
	for _, index := range slices.Sorted(maps.Keys(s.sums)) {
		sum := s.sums[index]
		all.Write(sum[:])
	}
	return base64.StdEncoding.EncodeToString(all.Sum(nil))
}

func indexOf(in *http.Request) (int32, *Failure) {
	text := in.URL.Path[strings.LastIndex(in.URL.Path, "/")+1:]
	index, err := strconv.ParseInt(text, 10, 32)
	if err != nil || index < 0 {
		return 0, invalid("INVALID_BLOCK", "%q is not the index of a block", text)
	}
	return int32(index), nil
}
