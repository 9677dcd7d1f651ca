package ebsdirect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
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
	ClientToken, Description, KmsKeyArn string
	ParentSnapshotId                    string
	Encrypted                           *bool
	Tags                                []Tag
	Timeout                             *int
}

// start is a call of StartSnapshot with a client token, and its result.
type start struct {
	in startIn
	id string
}

// start starts a snapshot.
func (d *Double) start(out http.ResponseWriter, call *http.Request) *Failure {
	var in startIn
	decoder := json.NewDecoder(call.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&in); err != nil {
		return invalid("INVALID_PARAMETER_VALUE", "the body: %v", err)
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if before, known := d.starts[in.ClientToken]; known && in.ClientToken != "" {
		// UG, ebs-direct-api-idempotency.html
		if !reflect.DeepEqual(before.in, in) {
			return &Failure{http.StatusConflict, "ConflictException", "the client token was used with other parameters", ""}
		}
		return d.started(out, d.find(before.id))
	}
	s := Snapshot{
		ID: "snap-0" + random(16), Description: in.Description, Owner: d.Account, State: Pending, Started: d.Now(), written: d.Now(),
		Tags: in.Tags, timeout: time.Hour, early: d.NotFoundYet, shown: d.Completing,
	}
	if failure := d.check(in, &s); failure != nil {
		return failure
	}
	one, err := d.add(s)
	if err != nil {
		return &Failure{http.StatusInternalServerError, "InternalServerException", err.Error(), ""}
	}
	d.starts[in.ClientToken] = start{in, s.ID}
	return d.started(out, one)
}

// check checks the parameters of StartSnapshot and fills in the snapshot (API,
// StartSnapshot).
func (d *Double) check(in startIn, s *Snapshot) *Failure {
	switch {
	case in.VolumeSize == nil || *in.VolumeSize < 1 || *in.VolumeSize > 65536:
		return invalid("INVALID_VOLUME_SIZE", "VolumeSize must be from 1 to 65536")
	case in.Timeout != nil && (*in.Timeout < 10 || *in.Timeout > 4320):
		return invalid("INVALID_PARAMETER_VALUE", "Timeout must be from 10 to 4320")
	case len(in.ClientToken) > 64: // UG; the API's model allows 255
		return invalid("INVALID_PARAMETER_VALUE", "ClientToken has more than 64 characters")
	case len(in.Description) > 255:
		return invalid("INVALID_PARAMETER_VALUE", "Description has more than 255 characters")
	case len(in.Tags) > 50:
		return invalid("INVALID_TAG", "there are more than 50 tags")
	case slices.ContainsFunc(in.Tags, func(t Tag) bool {
		return t.Key == "" || len(t.Key) > 127 || len(t.Value) > 255 || strings.HasPrefix(strings.ToLower(t.Key), "aws:")
	}):
		return invalid("INVALID_TAG", "a tag is not valid")
	case d.Quotas.Pending > 0 && d.pending() >= d.Quotas.Pending:
		return &Failure{http.StatusPaymentRequired, "ServiceQuotaExceededException", "too many pending snapshots", "DEPENDENCY_SERVICE_QUOTA_EXCEEDED"}
	}
	s.Size = *in.VolumeSize
	if in.Timeout != nil {
		s.timeout = time.Duration(*in.Timeout) * time.Minute
	}
	if in.ParentSnapshotId != "" {
		return d.child(in, s)
	}
	return d.encrypt(in, s)
}

// encrypt decides the encryption of a snapshot without a parent (UG,
// ebsapis-using-encryption.html).
func (d *Double) encrypt(in startIn, s *Snapshot) *Failure {
	encrypted := in.Encrypted != nil && *in.Encrypted
	switch {
	case in.KmsKeyArn != "" && !encrypted:
		return invalid("INVALID_PARAMETER_VALUE", "KmsKeyArn needs Encrypted")
	case in.Encrypted != nil && !encrypted && d.EncryptByDefault:
		return invalid("INVALID_PARAMETER_VALUE", "encryption by default is on: the snapshot must be encrypted")
	case in.KmsKeyArn != "" && !strings.HasPrefix(in.KmsKeyArn, "arn:"):
		return invalid("INVALID_CUSTOMER_KEY", "KmsKeyArn is not an ARN")
	case !encrypted && !d.EncryptByDefault:
		return nil
	}
	s.Encrypted, s.Key = true, in.KmsKeyArn
	if s.Key == "" {
		s.Key = d.DefaultKey
	}
	if !d.mayUse(s.Key) {
		return denied("DEPENDENCY_ACCESS_DENIED", "the caller may not use the key %s", s.Key)
	}
	return nil
}

// child checks the parent of a snapshot (UG, ebsapis-using-encryption.html).
func (d *Double) child(in startIn, s *Snapshot) *Failure {
	parent, failure := d.readable(in.ParentSnapshotId)
	switch {
	case failure != nil:
		return failure
	case in.Encrypted != nil:
		return invalid("INVALID_PARAMETER_VALUE", "Encrypted and ParentSnapshotId exclude each other")
	case in.KmsKeyArn != "":
		return invalid("INVALID_PARAMETER_VALUE", "KmsKeyArn and ParentSnapshotId exclude each other")
	case !parent.Encrypted && d.EncryptByDefault:
		return invalid("INVALID_PARAMETER_VALUE", "encryption by default is on, and the parent is not encrypted")
	case s.Size < parent.Size: // stricter: no source
		return invalid("INVALID_VOLUME_SIZE", "the volume is smaller than the parent's")
	}
	s.Parent, s.parent, s.Encrypted, s.Key = parent.ID, parent, parent.Encrypted, parent.Key
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
	case s.State != Pending: // API, PutSnapshotBlock: only pending snapshots
		return nil, invalid("INVALID_SNAPSHOT_ID", "the snapshot %s is %s", id, s.State)
	case s.Encrypted && !d.mayUse(s.Key):
		return nil, denied("DEPENDENCY_ACCESS_DENIED", "the caller may not use the key %s", s.Key)
	}
	return s, nil
}

// put writes a block (API, PutSnapshotBlock).
func (d *Double) put(id string, out http.ResponseWriter, in *http.Request) *Failure {
	index, failure := indexOf(in)
	if failure != nil {
		return failure
	}
	block, err := io.ReadAll(in.Body)
	sum := sha256.Sum256(block)
	text := base64.StdEncoding.EncodeToString(sum[:])
	switch progress, number := in.Header.Get("X-Amz-Progress"), 0; {
	case err != nil:
		return invalid("INVALID_BLOCK", "reading the block: %v", err)
	case in.Header.Get("X-Amz-Data-Length") != strconv.Itoa(BlockSize), len(block) != BlockSize:
		return invalid("INVALID_BLOCK", "the block has %d bytes and its header says %q; blocks have %d bytes", len(block), in.Header.Get("X-Amz-Data-Length"), BlockSize)
	case in.Header.Get("X-Amz-Checksum-Algorithm") != "SHA256":
		return invalid("INVALID_PARAMETER_VALUE", "the checksum algorithm must be SHA256")
	case in.Header.Get("X-Amz-Checksum") != text:
		return invalid("INVALID_BLOCK", "the block does not have the checksum %q", in.Header.Get("X-Amz-Checksum"))
	case progress != "":
		if number, err = strconv.Atoi(progress); err != nil || number < 0 || number > 100 {
			return invalid("INVALID_PARAMETER_VALUE", "the progress must be from 0 to 100")
		}
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
	case int64(index) >= s.Size<<30/BlockSize:
		return invalid("INVALID_BLOCK", "the block %d is outside of a volume of %d GiB", index, s.Size)
	}
	if err := s.keep(index, block, sum, d.Forget); err != nil {
		return &Failure{http.StatusInternalServerError, "InternalServerException", err.Error(), ""}
	}
	s.written = d.Now()
	d.used.Sent += BlockSize
	out.Header().Set("X-Amz-Checksum", text)
	out.Header().Set("X-Amz-Checksum-Algorithm", "SHA256")
	answer(out, http.StatusCreated, struct{}{})
	return nil
}

// complete seals a snapshot (API, CompleteSnapshot).
func (d *Double) complete(id string, out http.ResponseWriter, in *http.Request) *Failure {
	count, err := strconv.Atoi(in.Header.Get("X-Amz-Changedblockscount"))
	if err != nil || count < 0 {
		return invalid("INVALID_PARAMETER_VALUE", "ChangedBlocksCount must be a number from 0")
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s, failure := d.writable(id)
	if failure != nil {
		return failure
	}
	if count != len(s.sums) {
		return invalid("INVALID_PARAMETER_VALUE", "ChangedBlocksCount is %d, but %d blocks were written", count, len(s.sums))
	}
	if sum := in.Header.Get("X-Amz-Checksum"); sum != "" {
		switch {
		case in.Header.Get("X-Amz-Checksum-Algorithm") != "SHA256":
			return invalid("INVALID_PARAMETER_VALUE", "the checksum algorithm must be SHA256")
		case in.Header.Get("X-Amz-Checksum-Aggregation-Method") != "LINEAR":
			return invalid("INVALID_PARAMETER_VALUE", "the aggregation method must be LINEAR")
		case sum != s.linear():
			return invalid("INVALID_PARAMETER_VALUE", "the snapshot does not have the checksum %q", sum)
		}
	}
	s.State = Completed
	answer(out, http.StatusAccepted, map[string]string{"Status": Pending})
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
