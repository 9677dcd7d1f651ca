import base64, hashlib
import botocore.session
from botocore.exceptions import ClientError

ebs = botocore.session.get_session().create_client("ebs", region_name="eu-west-1")
parent = open("id").read().strip()
child = ebs.start_snapshot(VolumeSize=1, ParentSnapshotId=parent)["SnapshotId"]
sums = {}
for index in range(150):
    block = bytes([index]) * 524288
    sums[index] = hashlib.sha256(block).digest()
    ebs.put_snapshot_block(SnapshotId=child, BlockIndex=index, BlockData=block, DataLength=524288,
                           Checksum=base64.b64encode(sums[index]).decode(), ChecksumAlgorithm="SHA256")
linear = hashlib.sha256(b"".join(sums[i] for i in sorted(sums))).digest()
ebs.complete_snapshot(SnapshotId=child, ChangedBlocksCount=150, Checksum=base64.b64encode(linear).decode(),
                      ChecksumAlgorithm="SHA256", ChecksumAggregationMethod="LINEAR")

def pages(call, name, **more):
    token, found = None, []
    while True:
        page = call(MaxResults=100, **more, **({"NextToken": token} if token else {}))
        found += page[name]
        token = page.get("NextToken")
        if not token:
            return found

blocks = pages(ebs.list_snapshot_blocks, "Blocks", SnapshotId=child)
assert [b["BlockIndex"] for b in blocks] == list(range(150)), blocks
for b in blocks:
    got = ebs.get_snapshot_block(SnapshotId=child, BlockIndex=b["BlockIndex"], BlockToken=b["BlockToken"])
    data = got["BlockData"].read()
    assert hashlib.sha256(data).digest() == sums[b["BlockIndex"]] == base64.b64decode(got["Checksum"])
changed = pages(ebs.list_changed_blocks, "ChangedBlocks", FirstSnapshotId=parent, SecondSnapshotId=child)
assert len(changed) == 150 and [b["BlockIndex"] for b in changed if "FirstBlockToken" in b] == [3], changed
for code, status, reason, call in [
    ("ValidationException", 400, "INVALID_BLOCK_TOKEN", lambda: ebs.get_snapshot_block(SnapshotId=child, BlockIndex=0, BlockToken="AAAA")),
    ("ValidationException", 400, "INVALID_SNAPSHOT_ID", lambda: ebs.complete_snapshot(SnapshotId=child, ChangedBlocksCount=150)),
    ("ResourceNotFoundException", 404, "SNAPSHOT_NOT_FOUND", lambda: ebs.list_snapshot_blocks(SnapshotId="snap-0123456789abcdef0")),
]:
    try:
        call()
        raise SystemExit(code + " is missing")
    except ClientError as e:
        assert e.response["Error"]["Code"] == code and e.response["Reason"] == reason, e.response
        assert e.response["ResponseMetadata"]["HTTPStatusCode"] == status, e.response
print("child", child)
