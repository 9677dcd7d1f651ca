# Writes a snapshot, reads it, and prints its ID and the SHA-256 of the volume.
import base64, boto3, hashlib, random
size = 512 << 10
ebs = boto3.client('ebs')
digest = lambda data: base64.b64encode(hashlib.sha256(data).digest()).decode()
snapshot = ebs.start_snapshot(VolumeSize=1, ClientToken='boto3', Timeout=60)['SnapshotId']
random.seed(1)
blocks = {n: random.randbytes(size) for n in random.sample(range(2048), 60)}
blocks[7] = bytes(size)
for n in sorted(blocks):
    ebs.put_snapshot_block(SnapshotId=snapshot, BlockIndex=n, BlockData=blocks[n], DataLength=size, Checksum=digest(blocks[n]), ChecksumAlgorithm='SHA256')
ebs.complete_snapshot(SnapshotId=snapshot, ChangedBlocksCount=len(blocks))
read = {}
for b in ebs.list_snapshot_blocks(SnapshotId=snapshot)['Blocks']:
    read[b['BlockIndex']] = ebs.get_snapshot_block(SnapshotId=snapshot, BlockIndex=b['BlockIndex'], BlockToken=b['BlockToken'])['BlockData'].read()
assert read == blocks
volume = hashlib.sha256()
for n in range(2048):
    volume.update(read.get(n, bytes(size)))
print(snapshot, volume.hexdigest())
