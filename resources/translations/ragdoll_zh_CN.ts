<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="zh_CN" sourcelanguage="en">
<context>
    <name>AnotherModel</name>
    <message>
        <source>%1 found for “%2”, the most downloaded first</source>
        <translation>为“%2”找到 %1 个，下载最多的在前</translation>
    </message>
    <message>
        <source>%1 models in %2</source>
        <translation>%2 中有 %1 个模型</translation>
    </message>
    <message>
        <source>1 found for “%2”</source>
        <translation>为“%2”找到 1 个</translation>
    </message>
    <message>
        <source>1 model in %2</source>
        <translation>%2 中有 1 个模型</translation>
    </message>
    <message>
        <source>Another model</source>
        <translation>其他模型</translation>
    </message>
    <message>
        <source>Another model: link, OWNER/NAME, or words to search for</source>
        <translation>其他模型：链接、OWNER/NAME，或要搜索的词</translation>
    </message>
    <message>
        <source>Back</source>
        <translation>返回</translation>
    </message>
    <message>
        <source>Back to the results for “%1”</source>
        <translation>返回“%1”的搜索结果</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Cancel the search for the model</source>
        <translation>取消查找模型</translation>
    </message>
    <message>
        <source>Download</source>
        <translation>下载</translation>
    </message>
    <message>
        <source>Download or search for this model</source>
        <translation>下载或搜索此模型</translation>
    </message>
    <message>
        <source>Hide</source>
        <translation>隐藏</translation>
    </message>
    <message>
        <source>Hide the models in %1</source>
        <translation>隐藏 %1 中的模型</translation>
    </message>
    <message>
        <source>Hide the results</source>
        <translation>隐藏搜索结果</translation>
    </message>
    <message>
        <source>OWNER/NAME, a link, or words to search for</source>
        <translation>OWNER/NAME、链接，或要搜索的词</translation>
    </message>
    <message>
        <source>The link of its page or of its GGUF file on the Hugging Face hub, or its name there: OWNER/NAME. Other words are searched for there when you press Enter.</source>
        <translation>它在 Hugging Face Hub 上的页面链接或 GGUF 文件链接，或它在那里的名称：OWNER/NAME。其他词会在你按 Enter 时到那里搜索。</translation>
    </message>
</context>
<context>
    <name>Answering</name>
    <message>
        <source>Ragdoll was closed before this answer was complete.</source>
        <translation>这个回答尚未完成时 Ragdoll 就关闭了。</translation>
    </message>
    <message>
        <source>The engine is not running, so nothing can be answered. Start it again, then retry.</source>
        <translation>引擎未运行，无法回答。请重新启动引擎，然后重试。</translation>
    </message>
</context>
<context>
    <name>AppModels</name>
    <message>
        <source>Export what you need.</source>
        <translation>请导出需要的内容。</translation>
    </message>
</context>
<context>
    <name>AskedLine</name>
    <message>
        <source>Show it</source>
        <translation>查看</translation>
    </message>
    <message>
        <source>“%1” is still being asked, %2 %</source>
        <translation>“%1”仍在提问中，已完成 %2 %</translation>
    </message>
</context>
<context>
    <name>Attaching</name>
    <message>
        <source>Attached: %1</source>
        <translation>已附加：%1</translation>
    </message>
    <message>
        <source>Free some space on the disk that holds %1, then paste it again.</source>
        <translation>请在 %1 所在的磁盘上腾出一些空间，然后重新粘贴。</translation>
    </message>
    <message>
        <source>The pasted content could not be saved as a file: %1.</source>
        <translation>粘贴的内容无法保存为文件：%1。</translation>
    </message>
</context>
<context>
    <name>BudgetRow</name>
    <message>
        <source>%1 for now: other programs need the rest.</source>
        <translation>目前为 %1：其余留给其他程序。</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1，共 %2</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Budget of %1</source>
        <translation>占用上限：%1</translation>
    </message>
    <message>
        <source>Budget of %1: automatic</source>
        <translation>占用上限：%1，自动</translation>
    </message>
    <message>
        <source>More is in use than the budget allows.</source>
        <translation>占用已超出上限。</translation>
    </message>
    <message>
        <source>The system reports that memory is low.</source>
        <translation>系统报告内存不足。</translation>
    </message>
</context>
<context>
    <name>BudgetsCard</name>
    <message>
        <source>An 8-bit KV cache, or a smaller context. You are notified.</source>
        <translation>改用 8 位 KV 缓存，或缩短上下文。届时会通知你。</translation>
    </message>
    <message>
        <source>Budgets</source>
        <translation>占用上限</translation>
    </message>
    <message>
        <source>Reduce precision or context when nothing else helps</source>
        <translation>别无他法时，降低精度或缩短上下文</translation>
    </message>
    <message>
        <source>The most that Ragdoll may use. Automatic leaves other programs what they need.</source>
        <translation>Ragdoll 最多可占用的容量。设为自动时，会给其他程序留出所需部分。</translation>
    </message>
</context>
<context>
    <name>CatalogueList</name>
    <message>
        <source>Comes from the Hugging Face hub when you press Download, and stays on this computer. Sizes and speeds are estimates for this machine.</source>
        <translation>点按“下载”后从 Hugging Face Hub 下载，并保存在这台电脑上。大小和速度均为针对本机的估计值。</translation>
    </message>
    <message>
        <source>Download a model</source>
        <translation>下载模型</translation>
    </message>
</context>
<context>
    <name>CatalogueModel</name>
    <message>
        <source>%1 is downloaded and on the list of models.</source>
        <translation>%1 已下载，并已列入模型列表。</translation>
    </message>
</context>
<context>
    <name>CatalogueRow</name>
    <message>
        <source>Download</source>
        <translation>下载</translation>
    </message>
    <message>
        <source>Download %1</source>
        <translation>下载 %1</translation>
    </message>
    <message>
        <source>On your list</source>
        <translation>已在列表中</translation>
    </message>
    <message>
        <source>about %1</source>
        <translation>约 %1</translation>
    </message>
    <message>
        <source>context of %1 tokens</source>
        <translation>上下文 %1 词元</translation>
    </message>
</context>
<context>
    <name>ChatActions</name>
    <message>
        <source>%1 chats were imported.</source>
        <translation>已导入 %1 个对话。</translation>
    </message>
    <message>
        <source>%1 chats were written to %2.</source>
        <translation>已将 %1 个对话写入 %2。</translation>
    </message>
    <message>
        <source>%1 of %2 chats were written, the next one could not be: %3.</source>
        <translation>%2 个对话已写出 %1 个，下一个无法写出：%3。</translation>
    </message>
    <message>
        <source>1 chat was imported.</source>
        <translation>已导入 1 个对话。</translation>
    </message>
    <message>
        <source>1 chat was written to %2.</source>
        <translation>已将 1 个对话写入 %2。</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>请选择其他文件夹。</translation>
    </message>
    <message>
        <source>Free some space, or choose another folder.</source>
        <translation>请腾出一些空间，或选择其他文件夹。</translation>
    </message>
    <message>
        <source>The chat could not be written: %1.</source>
        <translation>无法写出对话：%1。</translation>
    </message>
    <message>
        <source>The chats could not be written: %3.</source>
        <translation>无法写出对话：%3。</translation>
    </message>
</context>
<context>
    <name>ChatListPanel</name>
    <message>
        <source>Chats</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete %1 chats</source>
        <translation>删除 %1 个对话</translation>
    </message>
    <message>
        <source>Duplicate</source>
        <translation>创建副本</translation>
    </message>
    <message>
        <source>Export as JSON…</source>
        <translation>导出为 JSON…</translation>
    </message>
    <message>
        <source>Export as Markdown…</source>
        <translation>导出为 Markdown…</translation>
    </message>
    <message>
        <source>Export…</source>
        <translation>导出…</translation>
    </message>
    <message>
        <source>No chat matches.</source>
        <translation>没有匹配的对话。</translation>
    </message>
    <message>
        <source>Pin</source>
        <translation>置顶</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>重命名</translation>
    </message>
    <message>
        <source>Search chats</source>
        <translation>搜索对话</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>正在搜索…</translation>
    </message>
    <message>
        <source>Unpin</source>
        <translation>取消置顶</translation>
    </message>
    <message>
        <source>Your chats appear here.</source>
        <translation>你的对话会显示在这里。</translation>
    </message>
</context>
<context>
    <name>ChatPage</name>
    <message>
        <source>%1 of %3 files in %2 have been read so far; you can already ask.</source>
        <translation>目前已读 %3 个文件中的 %1 个（%2）；现在就可以提问。</translation>
    </message>
    <message>
        <source>Answers come from %1 files in %2.</source>
        <translation>回答取自 %1 个文件（%2）。</translation>
    </message>
    <message>
        <source>Answers come from 1 file in %2.</source>
        <translation>回答取自 1 个文件（%2）。</translation>
    </message>
    <message>
        <source>Answers come from what is named below the question.</source>
        <translation>回答取自问题下方所列的内容。</translation>
    </message>
    <message>
        <source>Instructions and settings of this chat</source>
        <translation>此对话的指令和设置</translation>
    </message>
    <message>
        <source>Show or hide the sources</source>
        <translation>显示或隐藏来源</translation>
    </message>
    <message>
        <source>The model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>The model answers from what it knows; your files are not searched.</source>
        <translation>模型凭自身知识回答，不搜索你的文件。</translation>
    </message>
    <message>
        <source>Without files and without a model nobody answers. Choose one of them above.</source>
        <translation>既没有文件也没有模型，就无从回答。请在上方选择其一。</translation>
    </message>
    <message>
        <source>Your files are being read; you can already ask.</source>
        <translation>正在阅读你的文件；现在就可以提问。</translation>
    </message>
    <message>
        <source>your library</source>
        <translation>你的资料库</translation>
    </message>
</context>
<context>
    <name>CodeBlock</name>
    <message>
        <source>Copy code</source>
        <translation>复制代码</translation>
    </message>
</context>
<context>
    <name>CollectionCard</name>
    <message>
        <source>%1 chunks</source>
        <translation>%1 个文本块</translation>
    </message>
    <message>
        <source>1 chunk</source>
        <translation>1 个文本块</translation>
    </message>
    <message>
        <source>Add a folder…</source>
        <translation>添加文件夹…</translation>
    </message>
    <message>
        <source>Add to %1</source>
        <translation>添加到 %1</translation>
    </message>
    <message>
        <source>Delete the collection…</source>
        <translation>删除合集…</translation>
    </message>
    <message>
        <source>More for %1</source>
        <translation>%1 的更多操作</translation>
    </message>
    <message>
        <source>Rename…</source>
        <translation>重命名…</translation>
    </message>
    <message>
        <source>Show its files</source>
        <translation>显示其中的文件</translation>
    </message>
</context>
<context>
    <name>CollectionDialog</name>
    <message>
        <source>A set of folders and files that you can ask separately.</source>
        <translation>可以单独提问的一组文件夹和文件。</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Choose a folder…</source>
        <translation>选择文件夹…</translation>
    </message>
    <message>
        <source>Choose files…</source>
        <translation>选择文件…</translation>
    </message>
    <message>
        <source>Contracts</source>
        <translation>合同</translation>
    </message>
    <message>
        <source>Name of the collection</source>
        <translation>合集名称</translation>
    </message>
    <message>
        <source>New collection</source>
        <translation>新建合集</translation>
    </message>
</context>
<context>
    <name>CollectionNameDialog</name>
    <message>
        <source>A collection with this name already exists.</source>
        <translation>已有同名的合集。</translation>
    </message>
    <message>
        <source>Chats that ask this collection keep asking it. Its files and folders keep their names.</source>
        <translation>向此合集提问的对话会继续向它提问。其中的文件和文件夹名称不变。</translation>
    </message>
    <message>
        <source>Name of the collection</source>
        <translation>合集名称</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>重命名</translation>
    </message>
    <message>
        <source>Rename “%1”</source>
        <translation>重命名“%1”</translation>
    </message>
</context>
<context>
    <name>CollectionPicker</name>
    <message>
        <source>%1 (removed)</source>
        <translation>%1（已移除）</translation>
    </message>
    <message>
        <source>%1 + %2</source>
        <translation>%1 + %2</translation>
    </message>
    <message>
        <source>%1 + %2 more</source>
        <translation>%1 + 另外 %2 个</translation>
    </message>
    <message>
        <source>All collections</source>
        <translation>所有合集</translation>
    </message>
    <message>
        <source>All files</source>
        <translation>所有文件</translation>
    </message>
    <message>
        <source>Collection to ask: %1</source>
        <translation>提问的合集：%1</translation>
    </message>
    <message>
        <source>Collection whose files are listed: %1</source>
        <translation>列出其文件的合集：%1</translation>
    </message>
    <message>
        <source>Collections to ask</source>
        <translation>提问的合集</translation>
    </message>
    <message>
        <source>Collections to ask: %1</source>
        <translation>提问的合集：%1</translation>
    </message>
    <message>
        <source>New collection…</source>
        <translation>新建合集…</translation>
    </message>
    <message>
        <source>No files · the model alone</source>
        <translation>不用文件 · 仅模型</translation>
    </message>
    <message>
        <source>Several collections</source>
        <translation>多个合集</translation>
    </message>
    <message>
        <source>Several collections: %1</source>
        <translation>多个合集：%1</translation>
    </message>
    <message>
        <source>Which files answers come from</source>
        <translation>回答取自哪些文件</translation>
    </message>
    <message>
        <source>Which files are listed</source>
        <translation>列出哪些文件</translation>
    </message>
</context>
<context>
    <name>CommandPalette</name>
    <message>
        <source>Matches</source>
        <translation>匹配结果</translation>
    </message>
    <message>
        <source>Search chats and commands</source>
        <translation>搜索对话和命令</translation>
    </message>
</context>
<context>
    <name>ConversationView</name>
    <message>
        <source>Conversation</source>
        <translation>对话内容</translation>
    </message>
</context>
<context>
    <name>CopyMenu</name>
    <message>
        <source>Copy as plain text</source>
        <translation>复制为纯文本</translation>
    </message>
    <message>
        <source>Copy with sources</source>
        <translation>连同来源一起复制</translation>
    </message>
</context>
<context>
    <name>DaysDialog</name>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Changed between</source>
        <translation>修改日期范围</translation>
    </message>
    <message>
        <source>Files that were changed</source>
        <translation>修改过的文件</translation>
    </message>
    <message>
        <source>On or after</source>
        <translation>不早于</translation>
    </message>
    <message>
        <source>On or before</source>
        <translation>不晚于</translation>
    </message>
    <message>
        <source>Search these days</source>
        <translation>搜索这些日期</translation>
    </message>
</context>
<context>
    <name>DecisionCard</name>
    <message>
        <source>Keep them in the index</source>
        <translation>保留在索引中</translation>
    </message>
    <message>
        <source>Remove them…</source>
        <translation>移除它们…</translation>
    </message>
    <message>
        <source>They may have been deleted, or moved to a folder that is not in the library. They can be searched until you decide.</source>
        <translation>它们可能已被删除，或移到了资料库之外的文件夹。在你决定之前，它们仍可搜索。</translation>
    </message>
</context>
<context>
    <name>DecisionsCard</name>
    <message>
        <source>Decisions</source>
        <translation>决策记录</translation>
    </message>
    <message>
        <source>No decisions yet.</source>
        <translation>尚无决策记录。</translation>
    </message>
</context>
<context>
    <name>DocumentsPane</name>
    <message>
        <source>All files</source>
        <translation>所有文件</translation>
    </message>
    <message>
        <source>Every file can be reached.</source>
        <translation>所有文件都可访问。</translation>
    </message>
    <message>
        <source>Every file could be indexed.</source>
        <translation>所有文件都已顺利索引。</translation>
    </message>
    <message>
        <source>Find by name</source>
        <translation>按名称查找</translation>
    </message>
    <message>
        <source>Find documents by name</source>
        <translation>按名称查找文档</translation>
    </message>
    <message>
        <source>Indexed</source>
        <translation>已索引</translation>
    </message>
    <message>
        <source>No file here has these words in its name.</source>
        <translation>这里没有名称包含这些词的文件。</translation>
    </message>
    <message>
        <source>No file is waiting.</source>
        <translation>没有等待中的文件。</translation>
    </message>
    <message>
        <source>Not indexed</source>
        <translation>未索引</translation>
    </message>
    <message>
        <source>Offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>There is nothing here yet.</source>
        <translation>这里还没有内容。</translation>
    </message>
    <message>
        <source>Waiting</source>
        <translation>等待中</translation>
    </message>
</context>
<context>
    <name>DocumentsTable</name>
    <message>
        <source>Chunks</source>
        <translation>文本块</translation>
    </message>
    <message>
        <source>Name</source>
        <translation>名称</translation>
    </message>
    <message>
        <source>Reason</source>
        <translation>原因</translation>
    </message>
    <message>
        <source>Size</source>
        <translation>大小</translation>
    </message>
    <message>
        <source>State</source>
        <translation>状态</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>失败</translation>
    </message>
    <message>
        <source>indexed</source>
        <translation>已索引</translation>
    </message>
    <message>
        <source>offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>skipped</source>
        <translation>已跳过</translation>
    </message>
    <message>
        <source>waiting</source>
        <translation>等待中</translation>
    </message>
</context>
<context>
    <name>DownloadRow</name>
    <message>
        <source>%1 downloaded</source>
        <translation>已下载 %1</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>剩余 %1</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1，共 %2</translation>
    </message>
    <message>
        <source>%1/s</source>
        <translation>%1/秒</translation>
    </message>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Cancel the download of %1</source>
        <translation>取消下载 %1</translation>
    </message>
    <message>
        <source>Checking the files: %1</source>
        <translation>正在检查文件：%1</translation>
    </message>
    <message>
        <source>Deletes the partial download and frees the space</source>
        <translation>删除已下载的部分并释放空间</translation>
    </message>
    <message>
        <source>Downloading %1</source>
        <translation>正在下载 %1</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>移除</translation>
    </message>
    <message>
        <source>Remove the partial download of %1</source>
        <translation>删除 %1 已下载的部分</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>Resume the download of %1</source>
        <translation>继续下载 %1</translation>
    </message>
    <message>
        <source>Retrying at %1</source>
        <translation>将于 %1 重试</translation>
    </message>
    <message>
        <source>Retrying…</source>
        <translation>正在重试…</translation>
    </message>
    <message>
        <source>Waiting</source>
        <translation>等待中</translation>
    </message>
</context>
<context>
    <name>DropOverlay</name>
    <message>
        <source>Drop to add to %1</source>
        <translation>松开即可添加到 %1</translation>
    </message>
    <message>
        <source>Drop to attach to this chat</source>
        <translation>松开即可附到此对话</translation>
    </message>
    <message>
        <source>Drop to open the model and add the rest to %1</source>
        <translation>松开即可打开模型，并将其余文件添加到 %1</translation>
    </message>
    <message>
        <source>Drop to open the model and attach the rest to this chat</source>
        <translation>松开即可打开模型，并将其余文件附到此对话</translation>
    </message>
    <message>
        <source>Drop to open these models</source>
        <translation>松开即可打开这些模型</translation>
    </message>
    <message>
        <source>Drop to open this model</source>
        <translation>松开即可打开此模型</translation>
    </message>
    <message>
        <source>Shown while files are dragged over the window</source>
        <translation>将文件拖到窗口上时显示</translation>
    </message>
    <message>
        <source>The next questions of this chat are answered from the attached files. They are also added to %1.</source>
        <translation>此对话接下来的问题将依据所附文件回答。这些文件也会添加到 %1。</translation>
    </message>
</context>
<context>
    <name>EachFileModel</name>
    <message>
        <source>Add files to the library first.</source>
        <translation>请先将文件添加到资料库。</translation>
    </message>
    <message>
        <source>Free some space, then go on.</source>
        <translation>请腾出一些空间，然后继续。</translation>
    </message>
    <message>
        <source>Start it again, then retry.</source>
        <translation>请重新启动引擎，然后重试。</translation>
    </message>
    <message>
        <source>The engine is not running, so nothing can be answered.</source>
        <translation>引擎未运行，无法回答。</translation>
    </message>
    <message>
        <source>There is no file here that could be read.</source>
        <translation>这里没有可读的文件。</translation>
    </message>
    <message>
        <source>What was answered last could not be saved yet.</source>
        <translation>最近的回答还未能保存。</translation>
    </message>
    <message>
        <source>“%1” is paused at %2 %. It goes on from “Earlier questions”.</source>
        <translation>“%1”已在 %2 % 处暂停。可从“先前的问题”中继续。</translation>
    </message>
</context>
<context>
    <name>EmbedderDialog</name>
    <message>
        <source>All files are re-indexed in the background. That takes about as long as indexing them did, and longer with a larger model. The current model is used until then, and you can go back. Languages other than English are found by meaning only with a multilingual model.</source>
        <translation>所有文件会在后台重新索引：所需时间与当初建立索引相近，模型越大耗时越长。在此之前仍使用当前模型，你也可以随时换回。英语以外的语言只有使用多语言模型才能按含义查找。</translation>
    </message>
    <message>
        <source>Another embedding model</source>
        <translation>其他嵌入模型</translation>
    </message>
    <message>
        <source>Any other model for sentence-transformers: OWNER/NAME or its link on the hub, a folder that contains it, or the name of one on this computer.</source>
        <translation>也可以是任何适用于 sentence-transformers 的模型：OWNER/NAME 或其在 Hub 上的链接、包含模型的文件夹，或本机上已有模型的名称。</translation>
    </message>
    <message>
        <source>Embedding model</source>
        <translation>嵌入模型</translation>
    </message>
    <message>
        <source>Name, link or folder of the embedding model</source>
        <translation>嵌入模型的名称、链接或文件夹</translation>
    </message>
    <message>
        <source>Use the built-in one</source>
        <translation>使用内置模型</translation>
    </message>
    <message>
        <source>the built-in one</source>
        <translation>内置模型</translation>
    </message>
</context>
<context>
    <name>EmbedderLine</name>
    <message>
        <source>%1 is used until all files are re-indexed.</source>
        <translation>在所有文件重新索引完之前，使用 %1。</translation>
    </message>
    <message>
        <source>%1 of %2 files</source>
        <translation>%1 / %2 个文件</translation>
    </message>
    <message>
        <source>Searched by meaning with %1</source>
        <translation>使用 %1 按含义搜索</translation>
    </message>
    <message>
        <source>Switching to another embedding model</source>
        <translation>正在切换到另一个嵌入模型</translation>
    </message>
    <message>
        <source>Switching to the embedding model %1</source>
        <translation>正在切换到嵌入模型 %1</translation>
    </message>
    <message>
        <source>The current one</source>
        <translation>当前模型</translation>
    </message>
</context>
<context>
    <name>EmbedderRow</name>
    <message>
        <source>%1 dimensions</source>
        <translation>%1 维</translation>
    </message>
    <message>
        <source>English</source>
        <translation>英语</translation>
    </message>
    <message>
        <source>many languages</source>
        <translation>多种语言</translation>
    </message>
</context>
<context>
    <name>EmbeddersModel</name>
    <message>
        <source>%1 is downloaded. Your files are being re-indexed in the background.</source>
        <translation>%1 已下载。你的文件正在后台重新索引。</translation>
    </message>
</context>
<context>
    <name>EngineClient</name>
    <message>
        <source>Ragdoll is closing.</source>
        <translation>Ragdoll 正在关闭。</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>引擎未运行。</translation>
    </message>
    <message>
        <source>The engine is restarting.</source>
        <translation>正在重新启动引擎。</translation>
    </message>
</context>
<context>
    <name>EveryFilePage</name>
    <message>
        <source>A question for each file</source>
        <translation>向每个文件提出的问题</translation>
    </message>
    <message>
        <source>All %1 questions…</source>
        <translation>全部 %1 个问题…</translation>
    </message>
    <message>
        <source>Ask every file</source>
        <translation>逐文件提问</translation>
    </message>
    <message>
        <source>Choose another folder.</source>
        <translation>请选择其他文件夹。</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete these answers?</source>
        <translation>删除这些回答？</translation>
    </message>
    <message>
        <source>Earlier questions</source>
        <translation>先前的问题</translation>
    </message>
    <message>
        <source>Every file</source>
        <translation>逐文件提问</translation>
    </message>
    <message>
        <source>No answer yet.</source>
        <translation>尚无回答。</translation>
    </message>
    <message>
        <source>Puts one question to each file by itself, and gathers what every one of them says.</source>
        <translation>将同一个问题逐一向每个文件提出，并汇总各自的回答。</translation>
    </message>
    <message>
        <source>Search earlier questions</source>
        <translation>搜索先前的问题</translation>
    </message>
    <message>
        <source>The answer of the selected file</source>
        <translation>所选文件的回答</translation>
    </message>
    <message>
        <source>The table could not be written: %1.</source>
        <translation>无法写入表格：%1。</translation>
    </message>
    <message>
        <source>What the files answered to this question is lost; the files stay.</source>
        <translation>各文件对此问题的回答将丢失；文件会保留。</translation>
    </message>
    <message>
        <source>being asked, %1 %</source>
        <translation>提问中，%1 %</translation>
    </message>
    <message>
        <source>paused, %1 %</source>
        <translation>已暂停，%1 %</translation>
    </message>
    <message>
        <source>“When can this contract be ended?” Ask it of every contract at once.</source>
        <translation>“这份合同何时可以终止？”一次问遍所有合同。</translation>
    </message>
</context>
<context>
    <name>EveryFileTable</name>
    <message>
        <source>Answers of every file</source>
        <translation>每个文件的回答</translation>
    </message>
</context>
<context>
    <name>Exchange</name>
    <message>
        <source>Make it shorter.</source>
        <translation>请缩短一些。</translation>
    </message>
    <message>
        <source>This is too much at once.</source>
        <translation>一次的内容太多。</translation>
    </message>
</context>
<context>
    <name>ExportLine</name>
    <message>
        <source>%1 chats were written to %2.</source>
        <translation>已将 %1 个对话写入 %2。</translation>
    </message>
    <message>
        <source>%1 of %2 chats have been written…</source>
        <translation>%2 个对话中已写出 %1 个…</translation>
    </message>
    <message>
        <source>%1 of %2 chats were written, the next one could not be: %3.</source>
        <translation>%2 个对话已写出 %1 个，下一个无法写出：%3。</translation>
    </message>
    <message>
        <source>1 chat was written to %2.</source>
        <translation>已将 1 个对话写入 %2。</translation>
    </message>
    <message>
        <source>Export all chats…</source>
        <translation>导出所有对话…</translation>
    </message>
    <message>
        <source>Export as JSON…</source>
        <translation>导出为 JSON…</translation>
    </message>
    <message>
        <source>Free some space, or choose another folder.</source>
        <translation>请腾出一些空间，或选择其他文件夹。</translation>
    </message>
    <message>
        <source>Import a folder…</source>
        <translation>导入文件夹…</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>导入对话…</translation>
    </message>
    <message>
        <source>JSON files hold all of a chat, and can be imported again, also on another computer.</source>
        <translation>JSON 文件包含对话的全部内容，可以再次导入，在其他电脑上也可以。</translation>
    </message>
    <message>
        <source>One Markdown file for each chat, in a new folder. The chats stay here.</source>
        <translation>每个对话一个 Markdown 文件，放在新文件夹中。对话仍保留在这里。</translation>
    </message>
    <message>
        <source>The chats could not be written: %3.</source>
        <translation>无法写出对话：%3。</translation>
    </message>
    <message>
        <source>There are no chats yet.</source>
        <translation>还没有对话。</translation>
    </message>
    <message>
        <source>Your chats as files</source>
        <translation>将对话存为文件</translation>
    </message>
</context>
<context>
    <name>FiguresCard</name>
    <message>
        <source>Figures</source>
        <translation>运行数据</translation>
    </message>
    <message>
        <source>Last minutes: between %1 and %2</source>
        <translation>最近几分钟：%1 至 %2</translation>
    </message>
    <message>
        <source>Nothing is running.</source>
        <translation>目前没有任务在运行。</translation>
    </message>
</context>
<context>
    <name>FilterBar</name>
    <message>
        <source>Remove the filter: %1</source>
        <translation>移除筛选条件：%1</translation>
    </message>
    <message>
        <source>Search in</source>
        <translation>搜索范围</translation>
    </message>
    <message>
        <source>Search only some folders, kinds of files, or dates</source>
        <translation>只搜索部分文件夹、文件类型或日期</translation>
    </message>
</context>
<context>
    <name>FilterChoices</name>
    <message>
        <source>Add</source>
        <translation>添加</translation>
    </message>
    <message>
        <source>Any time</source>
        <translation>任何时间</translation>
    </message>
    <message>
        <source>Between two days…</source>
        <translation>指定日期范围…</translation>
    </message>
    <message>
        <source>Changed</source>
        <translation>修改日期</translation>
    </message>
    <message>
        <source>Choose a folder…</source>
        <translation>选择文件夹…</translation>
    </message>
    <message>
        <source>Choose files…</source>
        <translation>选择文件…</translation>
    </message>
    <message>
        <source>Folder or file</source>
        <translation>文件夹或文件</translation>
    </message>
    <message>
        <source>Kind of file</source>
        <translation>文件类型</translation>
    </message>
    <message>
        <source>Once added, it is indexed first and can be searched.</source>
        <translation>添加后会优先索引，随后即可搜索。</translation>
    </message>
    <message>
        <source>Search everything</source>
        <translation>搜索全部内容</translation>
    </message>
    <message>
        <source>“%1” and %2 more are not in your library yet.</source>
        <translation>“%1”等文件（另有 %2 个）还不在你的资料库中。</translation>
    </message>
    <message>
        <source>“%1” is not in your library yet.</source>
        <translation>“%1”还不在你的资料库中。</translation>
    </message>
</context>
<context>
    <name>FindBar</name>
    <message>
        <source>%1 of %2</source>
        <translation>%1 / %2</translation>
    </message>
    <message>
        <source>%2 matches</source>
        <translation>%2 处匹配</translation>
    </message>
    <message>
        <source>1 match</source>
        <translation>1 处匹配</translation>
    </message>
    <message>
        <source>Close (Esc)</source>
        <translation>关闭（Esc）</translation>
    </message>
    <message>
        <source>Find in this chat</source>
        <translation>在此对话中查找</translation>
    </message>
    <message>
        <source>Next match (F3)</source>
        <translation>下一处匹配（F3）</translation>
    </message>
    <message>
        <source>Not found</source>
        <translation>未找到</translation>
    </message>
    <message>
        <source>Previous match (Shift+F3)</source>
        <translation>上一处匹配（Shift+F3）</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>正在搜索…</translation>
    </message>
</context>
<context>
    <name>FirstRun</name>
    <message>
        <source>%1 is ready</source>
        <translation>%1 已就绪</translation>
    </message>
    <message>
        <source>A language model (optional)</source>
        <translation>语言模型（可选）</translation>
    </message>
    <message>
        <source>Ask your own files</source>
        <translation>向自己的文件提问</translation>
    </message>
    <message>
        <source>Choose a folder…</source>
        <translation>选择文件夹…</translation>
    </message>
    <message>
        <source>Choose a model…</source>
        <translation>选择模型…</translation>
    </message>
    <message>
        <source>Choose another…</source>
        <translation>另选一个…</translation>
    </message>
    <message>
        <source>Choose files…</source>
        <translation>选择文件…</translation>
    </message>
    <message>
        <source>Drag a folder or files here</source>
        <translation>将文件夹或文件拖到这里</translation>
    </message>
    <message>
        <source>Nothing leaves this computer. No account, no telemetry.</source>
        <translation>一切都留在这台电脑上。无需账户，没有遥测。</translation>
    </message>
    <message>
        <source>PDF, office files, mail, books, web pages, notes and code</source>
        <translation>PDF、办公文档、邮件、电子书、网页、笔记和代码</translation>
    </message>
    <message>
        <source>Ragdoll reads your documents on this computer and quotes what it finds.</source>
        <translation>Ragdoll 在这台电脑上阅读你的文档，并引用找到的内容。</translation>
    </message>
    <message>
        <source>Type your question below. Without files, it answers from general knowledge.</source>
        <translation>在下方输入你的问题。没有文件时，它凭自身知识回答。</translation>
    </message>
    <message>
        <source>Welcome</source>
        <translation>欢迎</translation>
    </message>
    <message>
        <source>Without one, answers are quotes from your files.</source>
        <translation>没有模型时，回答就是文件中的引文。</translation>
    </message>
</context>
<context>
    <name>FolderLine</name>
    <message>
        <source>%1 files</source>
        <translation>%1 个文件</translation>
    </message>
    <message>
        <source>%1 single files</source>
        <translation>%1 个单独的文件</translation>
    </message>
    <message>
        <source>1 file</source>
        <translation>1 个文件</translation>
    </message>
    <message>
        <source>Index again</source>
        <translation>重新索引</translation>
    </message>
    <message>
        <source>Its indexed files can still be searched.</source>
        <translation>其中已索引的文件仍可搜索。</translation>
    </message>
    <message>
        <source>More for %1</source>
        <translation>%1 的更多操作</translation>
    </message>
    <message>
        <source>Remove from the library…</source>
        <translation>从资料库中移除…</translation>
    </message>
    <message>
        <source>checked periodically</source>
        <translation>定期检查</translation>
    </message>
    <message>
        <source>offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>watched</source>
        <translation>实时监视</translation>
    </message>
</context>
<context>
    <name>FolderRow</name>
    <message>
        <source>Delete %1</source>
        <translation>删除 %1</translation>
    </message>
    <message>
        <source>Deletes its files and frees %1</source>
        <translation>删除其文件，释放 %1</translation>
    </message>
    <message>
        <source>Delete…</source>
        <translation>删除…</translation>
    </message>
    <message>
        <source>Download %1 and use it</source>
        <translation>下载 %1 并使用</translation>
    </message>
    <message>
        <source>Download and use</source>
        <translation>下载并使用</translation>
    </message>
    <message>
        <source>Here</source>
        <translation>已在本机</translation>
    </message>
    <message>
        <source>In use</source>
        <translation>使用中</translation>
    </message>
    <message>
        <source>Use</source>
        <translation>使用</translation>
    </message>
    <message>
        <source>Use %1</source>
        <translation>使用 %1</translation>
    </message>
    <message>
        <source>about %1</source>
        <translation>约 %1</translation>
    </message>
</context>
<context>
    <name>FoundModelsDialog</name>
    <message>
        <source>Add all to the list</source>
        <translation>全部加入列表</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Folder of models</source>
        <translation>模型文件夹</translation>
    </message>
    <message>
        <source>Models on this computer</source>
        <translation>此电脑上的模型</translation>
    </message>
    <message>
        <source>No other model was found in the folders of LM Studio, GPT4All, Jan, Ollama and others.</source>
        <translation>在 LM Studio、GPT4All、Jan、Ollama 等应用的文件夹中没有找到其他模型。</translation>
    </message>
    <message>
        <source>Searching the folders of LM Studio, GPT4All, Jan, Ollama and others…</source>
        <translation>正在 LM Studio、GPT4All、Jan、Ollama 等应用的文件夹中查找…</translation>
    </message>
    <message>
        <source>They are used where they are; nothing is copied.</source>
        <translation>它们在原处直接使用，不会复制任何文件。</translation>
    </message>
</context>
<context>
    <name>Hero</name>
    <message>
        <source>What would you like to know?</source>
        <translation>想了解些什么？</translation>
    </message>
</context>
<context>
    <name>HubFolderDialog</name>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete the files of %1?</source>
        <translation>删除 %1 的文件？</translation>
    </message>
    <message>
        <source>Download and use</source>
        <translation>下载并使用</translation>
    </message>
    <message>
        <source>Folder…</source>
        <translation>文件夹…</translation>
    </message>
    <message>
        <source>Frees %1. You would have to download it again.</source>
        <translation>将释放 %1。若要再次使用，需重新下载。</translation>
    </message>
    <message>
        <source>Use this model</source>
        <translation>使用此模型</translation>
    </message>
</context>
<context>
    <name>HubRepositoryRow</name>
    <message>
        <source>%1 likes</source>
        <translation>%1 个赞</translation>
    </message>
    <message>
        <source>%1 recent downloads</source>
        <translation>近期下载 %1 次</translation>
    </message>
    <message>
        <source>1 like</source>
        <translation>1 个赞</translation>
    </message>
    <message>
        <source>1 recent download</source>
        <translation>近期下载 1 次</translation>
    </message>
    <message>
        <source>Requires a Hugging Face account that accepted the licence; cannot be downloaded here.</source>
        <translation>需要已接受其许可证的 Hugging Face 账户，因此无法在此下载。</translation>
    </message>
    <message>
        <source>See its models</source>
        <translation>查看其中的模型</translation>
    </message>
    <message>
        <source>See the models in %1</source>
        <translation>查看 %1 中的模型</translation>
    </message>
</context>
<context>
    <name>LayerStrip</name>
    <message>
        <source>Layer %1: %2.</source>
        <translation>第 %1 层：%2。</translation>
    </message>
    <message>
        <source>Layers %1 to %3: %2.</source>
        <translation>第 %1 至 %3 层：%2。</translation>
    </message>
    <message>
        <source>Layers of the model</source>
        <translation>模型的层</translation>
    </message>
</context>
<context>
    <name>LibraryPage</name>
    <message>
        <source>%1 chunks</source>
        <translation>%1 个文本块</translation>
    </message>
    <message>
        <source>%1 files</source>
        <translation>%1 个文件</translation>
    </message>
    <message>
        <source>%1 files are removed from the index and can no longer be found or cited.</source>
        <translation>%1 个文件将从索引中移除，无法再被搜索或引用。</translation>
    </message>
    <message>
        <source>%1 on disk</source>
        <translation>磁盘占用 %1</translation>
    </message>
    <message>
        <source>1 chunk</source>
        <translation>1 个文本块</translation>
    </message>
    <message>
        <source>1 file</source>
        <translation>1 个文件</translation>
    </message>
    <message>
        <source>1 file is removed from the index and can no longer be found or cited.</source>
        <translation>1 个文件将从索引中移除，无法再被搜索或引用。</translation>
    </message>
    <message>
        <source>Add files…</source>
        <translation>添加文件…</translation>
    </message>
    <message>
        <source>Add folder…</source>
        <translation>添加文件夹…</translation>
    </message>
    <message>
        <source>All its files stay in the index, because they are also in other collections.</source>
        <translation>其中所有文件都留在索引中，因为它们也属于其他合集。</translation>
    </message>
    <message>
        <source>Check for changes</source>
        <translation>检查更改</translation>
    </message>
    <message>
        <source>Choose a folder…</source>
        <translation>选择文件夹…</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete the collection “%1”?</source>
        <translation>删除合集“%1”？</translation>
    </message>
    <message>
        <source>Drag a folder or files anywhere onto this window, and ask about what is in them.</source>
        <translation>将文件夹或文件拖到此窗口的任意位置，然后就其中的内容提问。</translation>
    </message>
    <message>
        <source>Its indexed files can no longer be found or cited.</source>
        <translation>其中已索引的文件将无法再被搜索或引用。</translation>
    </message>
    <message>
        <source>Library</source>
        <translation>资料库</translation>
    </message>
    <message>
        <source>Look for new, changed and removed files in the linked folders now</source>
        <translation>立即在关联的文件夹中查找新增、更改和移除的文件</translation>
    </message>
    <message>
        <source>New collection…</source>
        <translation>新建合集…</translation>
    </message>
    <message>
        <source>Remove</source>
        <translation>移除</translation>
    </message>
    <message>
        <source>Remove %1 files from the index?</source>
        <translation>从索引中移除 %1 个文件？</translation>
    </message>
    <message>
        <source>Remove %1 files from the library?</source>
        <translation>从资料库中移除 %1 个文件？</translation>
    </message>
    <message>
        <source>Remove “%1” from the library?</source>
        <translation>从资料库中移除“%1”？</translation>
    </message>
    <message>
        <source>The engine is starting…</source>
        <translation>引擎正在启动…</translation>
    </message>
    <message>
        <source>The files themselves stay where they are.</source>
        <translation>文件本身仍保留在原处。</translation>
    </message>
    <message>
        <source>The others are also in other collections and stay.</source>
        <translation>其余文件也属于其他合集，会保留。</translation>
    </message>
    <message>
        <source>They can no longer be found or cited.</source>
        <translation>它们将无法再被搜索或引用。</translation>
    </message>
    <message>
        <source>They can no longer be found or cited. If they come back, they are indexed again.</source>
        <translation>这些内容将无法再被搜索或引用。如果文件重新出现，会再次索引。</translation>
    </message>
</context>
<context>
    <name>LibraryTable</name>
    <message>
        <source>Ask about these files</source>
        <translation>就这些文件提问</translation>
    </message>
    <message>
        <source>Ask about this file</source>
        <translation>就此文件提问</translation>
    </message>
    <message>
        <source>Documents</source>
        <translation>文档</translation>
    </message>
    <message>
        <source>Index again</source>
        <translation>重新索引</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>打开</translation>
    </message>
    <message>
        <source>Remove from the library…</source>
        <translation>从资料库中移除…</translation>
    </message>
    <message>
        <source>Show in folder</source>
        <translation>在文件夹中显示</translation>
    </message>
</context>
<context>
    <name>MainWindow</name>
    <message>
        <source>Earlier questions of this chat, while the question is empty</source>
        <translation>输入框为空时：本对话之前的问题</translation>
    </message>
    <message>
        <source>Find in this chat</source>
        <translation>在此对话中查找</translation>
    </message>
    <message>
        <source>Go to the question</source>
        <translation>转到问题输入框</translation>
    </message>
    <message>
        <source>Go to the start or the end of the chat</source>
        <translation>跳到对话的开头或结尾</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>键盘快捷键</translation>
    </message>
    <message>
        <source>Larger text</source>
        <translation>放大文字</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新建对话</translation>
    </message>
    <message>
        <source>New line in a question</source>
        <translation>在问题中换行</translation>
    </message>
    <message>
        <source>Next match</source>
        <translation>下一处匹配</translation>
    </message>
    <message>
        <source>Next pane</source>
        <translation>下一个窗格</translation>
    </message>
    <message>
        <source>Open a file, in the library</source>
        <translation>打开文件（在资料库中）</translation>
    </message>
    <message>
        <source>Previous match</source>
        <translation>上一处匹配</translation>
    </message>
    <message>
        <source>Regenerate the last answer</source>
        <translation>重新生成上一个回答</translation>
    </message>
    <message>
        <source>Reset the text size</source>
        <translation>恢复文字大小</translation>
    </message>
    <message>
        <source>Restore a deleted chat, in the list</source>
        <translation>恢复已删除的对话（在对话列表中）</translation>
    </message>
    <message>
        <source>Scroll the chat, also from the question</source>
        <translation>滚动对话（输入问题时也可用）</translation>
    </message>
    <message>
        <source>Search chats and commands</source>
        <translation>搜索对话和命令</translation>
    </message>
    <message>
        <source>Send the question; while an answer is written, it is asked next</source>
        <translation>发送问题；正在写回答时，则在其后提问</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
    <message>
        <source>Show a file in its folder, in the library</source>
        <translation>在文件夹中显示文件（在资料库中）</translation>
    </message>
    <message>
        <source>Show or hide the sidebar</source>
        <translation>显示或隐藏侧边栏</translation>
    </message>
    <message>
        <source>Smaller text</source>
        <translation>缩小文字</translation>
    </message>
    <message>
        <source>Stop the answer</source>
        <translation>停止回答</translation>
    </message>
</context>
<context>
    <name>MannerChoice</name>
    <message>
        <source>Instructions and settings of this chat: %1</source>
        <translation>此对话的指令和设置：%1</translation>
    </message>
    <message>
        <source>as in the settings</source>
        <translation>与设置相同</translation>
    </message>
</context>
<context>
    <name>MannerDialog</name>
    <message>
        <source>%1 characters too long. Until they are shorter, this chat keeps the previous instructions.</source>
        <translation>超出 %1 个字符。缩短之前，此对话沿用先前的指令。</translation>
    </message>
    <message>
        <source>Chats that have its values keep them.</source>
        <translation>已采用其值的对话会保留这些值。</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Close without these instructions?</source>
        <translation>关闭而不保留这些指令？</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete the preset “%1”?</source>
        <translation>删除预设“%1”？</translation>
    </message>
    <message>
        <source>Instructions and settings of this chat</source>
        <translation>此对话的指令和设置</translation>
    </message>
    <message>
        <source>New chats then start with the values of the settings.</source>
        <translation>之后的新对话将采用设置中的值。</translation>
    </message>
    <message>
        <source>No instructions in the settings</source>
        <translation>设置中没有指令</translation>
    </message>
    <message>
        <source>Preset</source>
        <translation>预设</translation>
    </message>
    <message>
        <source>Restores the values from before the preset was chosen</source>
        <translation>恢复选择预设之前的值</translation>
    </message>
    <message>
        <source>The next question takes longer once: the model has to read the conversation with the new instructions.</source>
        <translation>下一个问题会多花一些时间，仅此一次：模型需要按新的指令重新阅读对话。</translation>
    </message>
    <message>
        <source>They are too long to be saved and would be lost. This chat keeps the previous ones.</source>
        <translation>指令过长，无法保存，关闭后将丢失。此对话沿用先前的指令。</translation>
    </message>
    <message>
        <source>This chat has its own value</source>
        <translation>此对话使用自己的值</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>Unticked values follow the settings. Changes apply from the next question on.</source>
        <translation>未勾选的项与设置相同。更改从下一个问题起生效。</translation>
    </message>
</context>
<context>
    <name>MemoryLane</name>
    <message>
        <source>Budget: %1</source>
        <translation>上限：%1</translation>
    </message>
    <message>
        <source>Free: %1</source>
        <translation>空闲：%1</translation>
    </message>
    <message>
        <source>Memory lane</source>
        <translation>内存条带</translation>
    </message>
    <message>
        <source>Memory of %1</source>
        <translation>占用情况：%1</translation>
    </message>
    <message>
        <source>budget %1</source>
        <translation>上限 %1</translation>
    </message>
</context>
<context>
    <name>MemoryMap</name>
    <message>
        <source>%1 layers</source>
        <translation>%1 层</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 / %2</translation>
    </message>
    <message>
        <source>1 layer</source>
        <translation>1 层</translation>
    </message>
    <message>
        <source>Model layers</source>
        <translation>模型层</translation>
    </message>
</context>
<context>
    <name>MemoryPage</name>
    <message>
        <source>Budgets</source>
        <translation>占用上限</translation>
    </message>
    <message>
        <source>Map</source>
        <translation>分布图</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Memory use appears once the engine is running.</source>
        <translation>引擎运行后会显示内存占用情况。</translation>
    </message>
    <message>
        <source>Table</source>
        <translation>表格</translation>
    </message>
    <message>
        <source>What uses memory right now, and what is moving.</source>
        <translation>此刻什么在占用内存，又有什么在变动。</translation>
    </message>
</context>
<context>
    <name>MemoryTable</name>
    <message>
        <source>Bytes</source>
        <translation>字节数</translation>
    </message>
    <message>
        <source>Content</source>
        <translation>内容</translation>
    </message>
    <message>
        <source>Location</source>
        <translation>位置</translation>
    </message>
    <message>
        <source>Owner</source>
        <translation>占用者</translation>
    </message>
    <message>
        <source>State</source>
        <translation>状态</translation>
    </message>
    <message>
        <source>budget</source>
        <translation>上限</translation>
    </message>
    <message>
        <source>everything else</source>
        <translation>其他程序</translation>
    </message>
    <message>
        <source>free</source>
        <translation>空闲</translation>
    </message>
</context>
<context>
    <name>MemoryTablePane</name>
    <message>
        <source>As on the map</source>
        <translation>与分布图一致</translation>
    </message>
    <message>
        <source>By owner</source>
        <translation>按占用者</translation>
    </message>
    <message>
        <source>Most bytes first</source>
        <translation>占用多的在前</translation>
    </message>
    <message>
        <source>Moving first</source>
        <translation>变动中的在前</translation>
    </message>
    <message>
        <source>Order</source>
        <translation>排序</translation>
    </message>
    <message>
        <source>Order of the table</source>
        <translation>表格排序</translation>
    </message>
    <message>
        <source>Orders</source>
        <translation>排序方式</translation>
    </message>
</context>
<context>
    <name>MemoryTableView</name>
    <message>
        <source>Memory as a table</source>
        <translation>内存占用表</translation>
    </message>
</context>
<context>
    <name>MessageBar</name>
    <message>
        <source>Dismiss this message</source>
        <translation>关闭此消息</translation>
    </message>
</context>
<context>
    <name>ModelDialog</name>
    <message>
        <source>Answer with this model?</source>
        <translation>使用此模型回答？</translation>
    </message>
    <message>
        <source>It stays on the list of models either way.</source>
        <translation>无论如何，它都会留在模型列表中。</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Not now</source>
        <translation>暂不</translation>
    </message>
    <message>
        <source>This file cannot be used</source>
        <translation>无法使用此文件</translation>
    </message>
</context>
<context>
    <name>ModelPicker</name>
    <message>
        <source>%1 cannot be used</source>
        <translation>%1 无法使用</translation>
    </message>
    <message>
        <source>%1 could not be loaded</source>
        <translation>%1 无法载入</translation>
    </message>
    <message>
        <source>%1 is not on the list</source>
        <translation>%1 不在列表中</translation>
    </message>
    <message>
        <source>Answers are quotes from your files until a model is chosen.</source>
        <translation>选择模型之前，回答是你文件中的引文。</translation>
    </message>
    <message>
        <source>Answers in this chat are quotes from your files.</source>
        <translation>此对话中的回答是你文件中的引文。</translation>
    </message>
    <message>
        <source>Loading %1 · %2 %</source>
        <translation>正在载入 %1 · %2%</translation>
    </message>
    <message>
        <source>Loads with the next question</source>
        <translation>将在下次提问时载入</translation>
    </message>
    <message>
        <source>Model</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Model: %1</source>
        <translation>模型：%1</translation>
    </message>
    <message>
        <source>No model · quotes only</source>
        <translation>无模型 · 仅引文</translation>
    </message>
    <message>
        <source>The engine is starting.</source>
        <translation>引擎正在启动。</translation>
    </message>
    <message>
        <source>The model of this chat, %1, is no longer on the list of models.</source>
        <translation>此对话的模型 %1 已不在模型列表中。</translation>
    </message>
</context>
<context>
    <name>ModelPopup</name>
    <message>
        <source>Answer with %1 in this chat</source>
        <translation>在此对话中使用 %1 回答</translation>
    </message>
    <message>
        <source>Answers are quotes from your files until a model is chosen.</source>
        <translation>选择模型之前，回答是你文件中的引文。</translation>
    </message>
    <message>
        <source>Choose a model</source>
        <translation>选择模型</translation>
    </message>
    <message>
        <source>Download a model…</source>
        <translation>下载模型…</translation>
    </message>
    <message>
        <source>No model: answer with quotes only</source>
        <translation>不用模型：仅以引文回答</translation>
    </message>
    <message>
        <source>Open a GGUF file…</source>
        <translation>打开 GGUF 文件…</translation>
    </message>
    <message>
        <source>The model of this chat. New chats begin with what you choose.</source>
        <translation>此对话的模型。新对话会沿用你的选择。</translation>
    </message>
</context>
<context>
    <name>ModelRow</name>
    <message>
        <source>%1 layers</source>
        <translation>%1 层</translation>
    </message>
    <message>
        <source>%1 of them on the GPU</source>
        <translation>其中 %1 层在显卡上</translation>
    </message>
    <message>
        <source>1 layer</source>
        <translation>1 层</translation>
    </message>
    <message>
        <source>Allow it</source>
        <translation>允许</translation>
    </message>
    <message>
        <source>Allow it when memory is low</source>
        <translation>允许在内存不足时这样做</translation>
    </message>
    <message>
        <source>Applies to every model that would not fit; undo it on the Memory page.</source>
        <translation>适用于所有放不下的模型；可在“内存”页面撤销。</translation>
    </message>
    <message>
        <source>As planned (%1)</source>
        <translation>按规划（%1）</translation>
    </message>
    <message>
        <source>Delete file…</source>
        <translation>删除文件…</translation>
    </message>
    <message>
        <source>Delete the file of %1</source>
        <translation>删除 %1 的文件</translation>
    </message>
    <message>
        <source>Deletes it and frees %1</source>
        <translation>删除后可释放 %1</translation>
    </message>
    <message>
        <source>GPU layers</source>
        <translation>显卡层数</translation>
    </message>
    <message>
        <source>How many layers to put on the GPU</source>
        <translation>将多少层放到显卡上</translation>
    </message>
    <message>
        <source>In use</source>
        <translation>使用中</translation>
    </message>
    <message>
        <source>Layers of %1 on the GPU</source>
        <translation>%1 放到显卡上的层数</translation>
    </message>
    <message>
        <source>Reload</source>
        <translation>重新载入</translation>
    </message>
    <message>
        <source>Remove %1 from the list</source>
        <translation>将 %1 移出列表</translation>
    </message>
    <message>
        <source>Remove from list</source>
        <translation>移出列表</translation>
    </message>
    <message>
        <source>The file stays where it is</source>
        <translation>文件仍保留在原处</translation>
    </message>
    <message>
        <source>Unload</source>
        <translation>卸载</translation>
    </message>
    <message>
        <source>Unload %1</source>
        <translation>卸载 %1</translation>
    </message>
    <message>
        <source>Use</source>
        <translation>使用</translation>
    </message>
    <message>
        <source>Use %1</source>
        <translation>使用 %1</translation>
    </message>
    <message>
        <source>about %1 tokens/s</source>
        <translation>约 %1 词元/秒</translation>
    </message>
    <message>
        <source>context of %1 tokens</source>
        <translation>上下文 %1 词元</translation>
    </message>
    <message>
        <source>does not fit</source>
        <translation>放不下</translation>
    </message>
    <message>
        <source>first word after %1</source>
        <translation>%1后出首词</translation>
    </message>
</context>
<context>
    <name>ModelsPage</name>
    <message>
        <source>%1 loads with the next question.</source>
        <translation>%1 将在下次提问时载入。</translation>
    </message>
    <message>
        <source>Answers are quotes from your files until a model is chosen.</source>
        <translation>选择模型之前，回答是你文件中的引文。</translation>
    </message>
    <message>
        <source>Chosen</source>
        <translation>已选择</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Delete the file of %1?</source>
        <translation>删除 %1 的文件？</translation>
    </message>
    <message>
        <source>Download a model</source>
        <translation>下载模型</translation>
    </message>
    <message>
        <source>Failed</source>
        <translation>失败</translation>
    </message>
    <message>
        <source>Find on this computer…</source>
        <translation>在此电脑上查找…</translation>
    </message>
    <message>
        <source>Finds models that other applications have downloaded</source>
        <translation>查找其他应用已下载的模型</translation>
    </message>
    <message>
        <source>Frees %1. You would have to download it again.</source>
        <translation>将释放 %1。若要再次使用，需重新下载。</translation>
    </message>
    <message>
        <source>GGUF files that can write answers. New chats start with the one in use; a chat keeps its own.</source>
        <translation>能够撰写回答的 GGUF 文件。新对话使用当前模型；已有对话保留各自的模型。</translation>
    </message>
    <message>
        <source>Loaded</source>
        <translation>已载入</translation>
    </message>
    <message>
        <source>Loading</source>
        <translation>载入中</translation>
    </message>
    <message>
        <source>Loading %1… %2 %</source>
        <translation>正在载入 %1… %2%</translation>
    </message>
    <message>
        <source>Loading the model</source>
        <translation>正在载入模型</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>Open a GGUF file…</source>
        <translation>打开 GGUF 文件…</translation>
    </message>
</context>
<context>
    <name>MovesLine</name>
    <message>
        <source>Nothing is moving right now.</source>
        <translation>目前没有变动。</translation>
    </message>
    <message>
        <source>Right now: %1</source>
        <translation>当前变动：%1</translation>
    </message>
    <message>
        <source>Streamed layers pass through memory, one after the other.</source>
        <translation>流式读取的层正逐一经过内存。</translation>
    </message>
</context>
<context>
    <name>MultilingualOffer</name>
    <message>
        <source>Arabic</source>
        <translation>阿拉伯语</translation>
    </message>
    <message>
        <source>Chinese</source>
        <translation>中文</translation>
    </message>
    <message>
        <source>Czech</source>
        <translation>捷克语</translation>
    </message>
    <message>
        <source>Danish</source>
        <translation>丹麦语</translation>
    </message>
    <message>
        <source>Download a multilingual embedding model</source>
        <translation>下载多语言嵌入模型</translation>
    </message>
    <message>
        <source>Download a multilingual one (%1)…</source>
        <translation>下载多语言模型（%1）…</translation>
    </message>
    <message>
        <source>Download a multilingual one…</source>
        <translation>下载多语言模型…</translation>
    </message>
    <message>
        <source>Dutch</source>
        <translation>荷兰语</translation>
    </message>
    <message>
        <source>Finnish</source>
        <translation>芬兰语</translation>
    </message>
    <message>
        <source>French</source>
        <translation>法语</translation>
    </message>
    <message>
        <source>German</source>
        <translation>德语</translation>
    </message>
    <message>
        <source>Greek</source>
        <translation>希腊语</translation>
    </message>
    <message>
        <source>Hebrew</source>
        <translation>希伯来语</translation>
    </message>
    <message>
        <source>Hindi</source>
        <translation>印地语</translation>
    </message>
    <message>
        <source>Hungarian</source>
        <translation>匈牙利语</translation>
    </message>
    <message>
        <source>Indonesian</source>
        <translation>印度尼西亚语</translation>
    </message>
    <message>
        <source>Italian</source>
        <translation>意大利语</translation>
    </message>
    <message>
        <source>Japanese</source>
        <translation>日语</translation>
    </message>
    <message>
        <source>Korean</source>
        <translation>韩语</translation>
    </message>
    <message>
        <source>Norwegian</source>
        <translation>挪威语</translation>
    </message>
    <message>
        <source>Not now</source>
        <translation>暂不</translation>
    </message>
    <message>
        <source>Persian</source>
        <translation>波斯语</translation>
    </message>
    <message>
        <source>Polish</source>
        <translation>波兰语</translation>
    </message>
    <message>
        <source>Portuguese</source>
        <translation>葡萄牙语</translation>
    </message>
    <message>
        <source>Romanian</source>
        <translation>罗马尼亚语</translation>
    </message>
    <message>
        <source>Russian</source>
        <translation>俄语</translation>
    </message>
    <message>
        <source>Spanish</source>
        <translation>西班牙语</translation>
    </message>
    <message>
        <source>Swedish</source>
        <translation>瑞典语</translation>
    </message>
    <message>
        <source>Thai</source>
        <translation>泰语</translation>
    </message>
    <message>
        <source>The embedding model in use understands only English.</source>
        <translation>当前的嵌入模型只懂英语。</translation>
    </message>
    <message>
        <source>This offer does not appear again. You find it in the settings, under “Embedding model”.</source>
        <translation>不会再次提示。可在设置的“嵌入模型”中找到。</translation>
    </message>
    <message>
        <source>Turkish</source>
        <translation>土耳其语</translation>
    </message>
    <message>
        <source>Ukrainian</source>
        <translation>乌克兰语</translation>
    </message>
    <message>
        <source>Vietnamese</source>
        <translation>越南语</translation>
    </message>
    <message>
        <source>With a multilingual one you can ask in %1.</source>
        <translation>使用多语言模型，你就可以用%1提问。</translation>
    </message>
    <message>
        <source>Your files seem to be in %1; the embedding model in use understands only English.</source>
        <translation>你的文件似乎是%1的；当前的嵌入模型只懂英语。</translation>
    </message>
    <message>
        <source>another language</source>
        <translation>其他语言</translation>
    </message>
    <message>
        <source>several languages</source>
        <translation>多种语言</translation>
    </message>
</context>
<context>
    <name>NameDialog</name>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
</context>
<context>
    <name>NeedsCard</name>
    <message>
        <source>%1 files failed.</source>
        <translation>%1 个文件失败。</translation>
    </message>
    <message>
        <source>%1 files hold scanned pages without text.</source>
        <translation>%1 个文件含有没有文字的扫描页。</translation>
    </message>
    <message>
        <source>%1 files need a password.</source>
        <translation>%1 个文件需要密码。</translation>
    </message>
    <message>
        <source>%1 or more</source>
        <translation>至少 %1</translation>
    </message>
    <message>
        <source>1 file failed.</source>
        <translation>1 个文件失败。</translation>
    </message>
    <message>
        <source>1 file holds scanned pages without text.</source>
        <translation>1 个文件含有没有文字的扫描页。</translation>
    </message>
    <message>
        <source>1 file needs a password.</source>
        <translation>1 个文件需要密码。</translation>
    </message>
    <message>
        <source>Enter password…</source>
        <translation>输入密码…</translation>
    </message>
    <message>
        <source>How to read them…</source>
        <translation>如何读取…</translation>
    </message>
    <message>
        <source>Try all again</source>
        <translation>全部重试</translation>
    </message>
</context>
<context>
    <name>Notices</name>
    <message>
        <source>%1 files were indexed, %2 were not.</source>
        <translation>已索引 %1 个文件，%2 个未能索引。</translation>
    </message>
    <message>
        <source>%1 files were indexed, 1 was not.</source>
        <translation>已索引 %1 个文件，1 个未能索引。</translation>
    </message>
    <message>
        <source>%1 folders cannot be reached; their indexed files are kept.</source>
        <translation>%1 个文件夹现在无法访问；其中已索引的文件会保留。</translation>
    </message>
    <message>
        <source>%2 files could not be indexed.</source>
        <translation>%2 个文件无法索引。</translation>
    </message>
    <message>
        <source>1 file could not be indexed.</source>
        <translation>1 个文件无法索引。</translation>
    </message>
    <message>
        <source>1 file was indexed, %2 were not.</source>
        <translation>已索引 1 个文件，%2 个未能索引。</translation>
    </message>
    <message>
        <source>1 file was indexed, 1 was not.</source>
        <translation>已索引 1 个文件，1 个未能索引。</translation>
    </message>
    <message>
        <source>1 folder cannot be reached; its indexed files are kept.</source>
        <translation>1 个文件夹现在无法访问；其中已索引的文件会保留。</translation>
    </message>
    <message>
        <source>Folders are not watched, and nothing is indexed automatically.</source>
        <translation>不监视文件夹，也不会自动索引。</translation>
    </message>
    <message>
        <source>Indexed: %1. Removed: %2.</source>
        <translation>已索引：%1。已移除：%2。</translation>
    </message>
    <message>
        <source>It can be started in safe mode: no model, less memory.</source>
        <translation>可以用安全模式启动：不用模型，少用内存。</translation>
    </message>
    <message>
        <source>Nothing has changed in your folders.</source>
        <translation>你的文件夹没有变化。</translation>
    </message>
    <message>
        <source>Ragdoll was started in safe mode: answers are quotes until you choose a model.</source>
        <translation>Ragdoll 已以安全模式启动：在你选择模型之前，以引文回答。</translation>
    </message>
    <message>
        <source>Show it</source>
        <translation>查看</translation>
    </message>
    <message>
        <source>Show them</source>
        <translation>查看</translation>
    </message>
    <message>
        <source>Start in safe mode</source>
        <translation>以安全模式启动</translation>
    </message>
    <message>
        <source>Start normally</source>
        <translation>正常启动</translation>
    </message>
</context>
<context>
    <name>OcrDialog</name>
    <message>
        <source>Choose languages…</source>
        <translation>选择语言…</translation>
    </message>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Command that installs Tesseract: %1</source>
        <translation>安装 Tesseract 的命令：%1</translation>
    </message>
    <message>
        <source>Copy the command</source>
        <translation>复制命令</translation>
    </message>
    <message>
        <source>For documents that are not English, install their language too and choose it in the settings.</source>
        <translation>对于非英语文档，请同时安装相应的语言，并在设置中选择。</translation>
    </message>
    <message>
        <source>It is installed, try again</source>
        <translation>已安装，重试</translation>
    </message>
    <message>
        <source>Ragdoll reads them with Tesseract, a free program that runs on this computer like everything else. Install it, then try again; pages with text of their own need none of this. Pictures in documents are read with it as well.</source>
        <translation>Ragdoll 用 Tesseract 读取它们，这是一个免费程序，和其他一切一样在这台电脑上运行。请安装它，然后重试；本身带有文字的页面不需要它。文档中的图片也用它读取。</translation>
    </message>
    <message>
        <source>Scanned pages</source>
        <translation>扫描页</translation>
    </message>
    <message>
        <source>These pages are pictures of text</source>
        <translation>这些页面是文字的图像</translation>
    </message>
</context>
<context>
    <name>OutcomeLine</name>
    <message>
        <source>Ask again</source>
        <translation>重新提问</translation>
    </message>
    <message>
        <source>Continue</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>You stopped this answer.</source>
        <translation>你停止了这个回答。</translation>
    </message>
</context>
<context>
    <name>Outside</name>
    <message>
        <source>Connect the drive, or check the library for changes.</source>
        <translation>请连接该磁盘，或在资料库中检查更改。</translation>
    </message>
    <message>
        <source>Show it in its folder instead.</source>
        <translation>可改为在其文件夹中显示。</translation>
    </message>
    <message>
        <source>This computer has no program that opens “%1”.</source>
        <translation>此电脑上没有能打开“%1”的程序。</translation>
    </message>
    <message>
        <source>This computer has no program that shows the folder of “%1”.</source>
        <translation>此电脑上没有能显示“%1”所在文件夹的程序。</translation>
    </message>
    <message>
        <source>“%1” is not responding yet: its drive may be disconnected or asleep.</source>
        <translation>“%1”尚无响应：它所在的磁盘可能已断开或处于休眠。</translation>
    </message>
    <message>
        <source>“%1” might be run as a program, so it is shown in its folder instead.</source>
        <translation>“%1”可能会作为程序运行，因此改为在其文件夹中显示。</translation>
    </message>
    <message>
        <source>“%1” no longer exists; this is the folder that it was in.</source>
        <translation>“%1”已不存在；这是它原来所在的文件夹。</translation>
    </message>
    <message>
        <source>“%1” was not found: it was deleted or moved, or its drive is disconnected.</source>
        <translation>未找到“%1”：它已被删除或移走，或其磁盘已断开。</translation>
    </message>
</context>
<context>
    <name>PagePicture</name>
    <message>
        <source>Page</source>
        <translation>页面</translation>
    </message>
</context>
<context>
    <name>PageViewer</name>
    <message>
        <source>%1 This is the passage as it was indexed.</source>
        <translation>%1 这里显示的是索引时的段落。</translation>
    </message>
    <message>
        <source>%1 · %2 of %3</source>
        <translation>%1 · %2 / %3</translation>
    </message>
    <message>
        <source>%1, a picture with %2 marked places</source>
        <translation>%1，图像，标记了 %2 处</translation>
    </message>
    <message>
        <source>Back to the sources</source>
        <translation>返回来源</translation>
    </message>
    <message>
        <source>Fit the width</source>
        <translation>适合宽度</translation>
    </message>
    <message>
        <source>Larger</source>
        <translation>放大</translation>
    </message>
    <message>
        <source>Next page</source>
        <translation>下一页</translation>
    </message>
    <message>
        <source>Open in default app</source>
        <translation>用默认应用打开</translation>
    </message>
    <message>
        <source>Opening the page…</source>
        <translation>正在打开页面…</translation>
    </message>
    <message>
        <source>Page %1</source>
        <translation>第 %1 页</translation>
    </message>
    <message>
        <source>Page %1 of %2</source>
        <translation>第 %1 页，共 %2 页</translation>
    </message>
    <message>
        <source>Part of the text</source>
        <translation>部分文字</translation>
    </message>
    <message>
        <source>Previous page</source>
        <translation>上一页</translation>
    </message>
    <message>
        <source>Show in folder</source>
        <translation>在文件夹中显示</translation>
    </message>
    <message>
        <source>Smaller</source>
        <translation>缩小</translation>
    </message>
    <message>
        <source>The picture of this page cannot be shown.</source>
        <translation>无法显示此页的图像。</translation>
    </message>
</context>
<context>
    <name>PasswordDialog</name>
    <message>
        <source>Cancel</source>
        <translation>取消</translation>
    </message>
    <message>
        <source>Enter password</source>
        <translation>输入密码</translation>
    </message>
    <message>
        <source>One password for %1 files</source>
        <translation>%1 个文件共用的密码</translation>
    </message>
    <message>
        <source>Open</source>
        <translation>打开</translation>
    </message>
    <message>
        <source>Password</source>
        <translation>密码</translation>
    </message>
    <message>
        <source>Password for “%1”</source>
        <translation>“%1”的密码</translation>
    </message>
    <message>
        <source>Remember it, to read the file again when it changes</source>
        <translation>记住密码，以便文件更改后重新读取</translation>
    </message>
    <message>
        <source>Show</source>
        <translation>显示</translation>
    </message>
    <message>
        <source>Show the password</source>
        <translation>显示密码</translation>
    </message>
</context>
<context>
    <name>PasteOffer</name>
    <message>
        <source>Attach as a file</source>
        <translation>附加为文件</translation>
    </message>
</context>
<context>
    <name>PresetNameDialog</name>
    <message>
        <source>A preset with this name already exists.</source>
        <translation>已有同名预设。</translation>
    </message>
    <message>
        <source>It can be chosen in every chat, or be what new chats start with.</source>
        <translation>每个对话都可以选用，也可以作为新对话的初始预设。</translation>
    </message>
    <message>
        <source>Name of the preset</source>
        <translation>预设名称</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>重命名</translation>
    </message>
    <message>
        <source>Rename “%1”</source>
        <translation>重命名“%1”</translation>
    </message>
    <message>
        <source>Replace</source>
        <translation>替换</translation>
    </message>
    <message>
        <source>Save</source>
        <translation>保存</translation>
    </message>
    <message>
        <source>Save as a preset</source>
        <translation>保存为预设</translation>
    </message>
    <message>
        <source>The preset of that name gets these values. Chats that have its old ones keep them.</source>
        <translation>同名预设将采用这些值。使用其旧值的对话会保留旧值。</translation>
    </message>
    <message>
        <source>Translator</source>
        <translation>翻译</translation>
    </message>
</context>
<context>
    <name>PresetPicker</name>
    <message>
        <source>As in the settings</source>
        <translation>与设置相同</translation>
    </message>
    <message>
        <source>Custom values</source>
        <translation>自定义值</translation>
    </message>
    <message>
        <source>Delete</source>
        <translation>删除</translation>
    </message>
    <message>
        <source>Preset: %1</source>
        <translation>预设：%1</translation>
    </message>
    <message>
        <source>Rename</source>
        <translation>重命名</translation>
    </message>
    <message>
        <source>Save as a preset…</source>
        <translation>保存为预设…</translation>
    </message>
    <message>
        <source>Start new chats with</source>
        <translation>新对话的初始预设</translation>
    </message>
</context>
<context>
    <name>ProgressCard</name>
    <message>
        <source>%1 chunks</source>
        <translation>%1 个文本块</translation>
    </message>
    <message>
        <source>%1 chunks/s</source>
        <translation>%1 个文本块/秒</translation>
    </message>
    <message>
        <source>%1 left</source>
        <translation>剩余 %1</translation>
    </message>
    <message>
        <source>%1 of %2</source>
        <translation>%1 / %2</translation>
    </message>
    <message>
        <source>%1 of %2 files</source>
        <translation>%1 / %2 个文件</translation>
    </message>
    <message>
        <source>Cancel indexing</source>
        <translation>取消索引</translation>
    </message>
    <message>
        <source>Indexing</source>
        <translation>正在索引</translation>
    </message>
    <message>
        <source>Indexing is paused</source>
        <translation>索引已暂停</translation>
    </message>
    <message>
        <source>Indexing progress</source>
        <translation>索引进度</translation>
    </message>
    <message>
        <source>Pause indexing</source>
        <translation>暂停索引</translation>
    </message>
    <message>
        <source>Resume indexing</source>
        <translation>继续索引</translation>
    </message>
    <message>
        <source>counting files</source>
        <translation>正在统计文件</translation>
    </message>
    <message>
        <source>slower until your question is answered</source>
        <translation>回答你的问题期间放慢</translation>
    </message>
</context>
<context>
    <name>PromptEdit</name>
    <message>
        <source>As a file, you can ask about it.</source>
        <translation>存为文件后即可就其提问。</translation>
    </message>
    <message>
        <source>Ask the model…</source>
        <translation>向模型提问…</translation>
    </message>
    <message>
        <source>Ask your files…</source>
        <translation>向文件提问…</translation>
    </message>
    <message>
        <source>Attach files</source>
        <translation>附加文件</translation>
    </message>
    <message>
        <source>Enter sends, Shift+Enter starts a new line</source>
        <translation>按 Enter 发送，按 Shift+Enter 换行</translation>
    </message>
    <message>
        <source>Send (Enter)</source>
        <translation>发送（Enter）</translation>
    </message>
    <message>
        <source>Stop (Esc)</source>
        <translation>停止（Esc）</translation>
    </message>
    <message>
        <source>This text has %1 characters. As a file, it can be searched and cited.</source>
        <translation>这段文字有 %1 个字符。存为文件后可以搜索和引用。</translation>
    </message>
    <message>
        <source>This text has %1 characters; a question can have %2 at most.</source>
        <translation>这段文字有 %1 个字符；问题最多 %2 个字符。</translation>
    </message>
    <message>
        <source>Your question</source>
        <translation>你的问题</translation>
    </message>
</context>
<context>
    <name>Prose</name>
    <message>
        <source>Answer text</source>
        <translation>回答正文</translation>
    </message>
</context>
<context>
    <name>QWidget</name>
    <message>
        <source>%1 of %2 files in %3 are gone.</source>
        <translation>%3 中的 %2 个文件有 %1 个不见了。</translation>
    </message>
    <message>
        <source>and %1 more</source>
        <translation>以及另外 %1 个</translation>
    </message>
</context>
<context>
    <name>QuestionBubble</name>
    <message>
        <source>Copy the question</source>
        <translation>复制问题</translation>
    </message>
    <message>
        <source>Edit the question</source>
        <translation>编辑问题</translation>
    </message>
</context>
<context>
    <name>QuoteLine</name>
    <message>
        <source>Quote from %1</source>
        <translation>引自 %1</translation>
    </message>
</context>
<context>
    <name>QuotesCard</name>
    <message>
        <source>%1 quotes from your files</source>
        <translation>来自你文件的 %1 条引文</translation>
    </message>
    <message>
        <source>1 quote from your files</source>
        <translation>来自你文件的 1 条引文</translation>
    </message>
    <message>
        <source>Hide the quotes</source>
        <translation>隐藏引文</translation>
    </message>
    <message>
        <source>Show the quotes</source>
        <translation>显示引文</translation>
    </message>
</context>
<context>
    <name>Rail</name>
    <message>
        <source>Chats</source>
        <translation>对话</translation>
    </message>
    <message>
        <source>Every file</source>
        <translation>逐文件提问</translation>
    </message>
    <message>
        <source>Library</source>
        <translation>资料库</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>New chat</source>
        <translation>新建对话</translation>
    </message>
    <message>
        <source>New chat (Ctrl+N)</source>
        <translation>新建对话（Ctrl+N）</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
</context>
<context>
    <name>RerankerDialog</name>
    <message>
        <source>%1 that a search finds is read once more, together with the question, by a model made for this (a reranker). Those that answer the question come first, even if they use other words. This makes each search longer, most with a large model, which also needs the most memory. If there is not enough memory for it, questions are answered without it.</source>
        <translation>%1都会由专门的模型（重排序模型）连同问题再读一遍。能回答问题的排在前面，即使用词不同。每次搜索会因此变慢，模型越大越慢，占用的内存也越多。内存不足时，回答问题时不使用它。</translation>
    </message>
    <message>
        <source>Any other cross-encoder for sentence-transformers: OWNER/NAME or its link on the hub, or a folder that contains it.</source>
        <translation>也可以是任何适用于 sentence-transformers 的交叉编码器：OWNER/NAME 或其在 Hub 上的链接，或包含它的文件夹。</translation>
    </message>
    <message>
        <source>Each of the best %1 passages</source>
        <translation>搜索找到的前 %1 个最佳段落</translation>
    </message>
    <message>
        <source>Each of the best passages</source>
        <translation>搜索找到的最佳段落</translation>
    </message>
    <message>
        <source>Name, link or folder of the reranker</source>
        <translation>重排序模型的名称、链接或文件夹</translation>
    </message>
    <message>
        <source>Read the best passages a second time</source>
        <translation>把最佳段落再读一遍</translation>
    </message>
    <message>
        <source>Reranker</source>
        <translation>重排序模型</translation>
    </message>
    <message>
        <source>Use none</source>
        <translation>不使用</translation>
    </message>
    <message>
        <source>none</source>
        <translation>无</translation>
    </message>
</context>
<context>
    <name>RerankersModel</name>
    <message>
        <source>%1 is downloaded. It reranks the best passages from the next question on.</source>
        <translation>%1 已下载。从下一个问题起，由它对最佳段落重新排序。</translation>
    </message>
</context>
<context>
    <name>RunAsking</name>
    <message>
        <source>%1 files are still waiting to be indexed, so the question to every file is paused.</source>
        <translation>还有 %1 个文件等待索引，因此逐文件提问已暂停。</translation>
    </message>
    <message>
        <source>%1 files in a row are no longer in the library, so the question is paused.</source>
        <translation>连续 %1 个文件已不在资料库中，因此提问已暂停。</translation>
    </message>
    <message>
        <source>1 file is still waiting to be indexed, so the question to every file is paused.</source>
        <translation>还有 1 个文件等待索引，因此逐文件提问已暂停。</translation>
    </message>
    <message>
        <source>Add their folder again, then resume. If you resume without it, these files are left out.</source>
        <translation>请重新添加它们的文件夹，然后继续。不添加就继续，则会跳过这些文件。</translation>
    </message>
    <message>
        <source>Resume it when indexing is finished.</source>
        <translation>请在索引完成后继续。</translation>
    </message>
</context>
<context>
    <name>RunCard</name>
    <message>
        <source>%1 failed</source>
        <translation>%1 个失败</translation>
    </message>
    <message>
        <source>%1 of %2 files answered</source>
        <translation>%2 个文件中已有 %1 个给出回答</translation>
    </message>
    <message>
        <source>%1 of 1 file answered</source>
        <translation>1 个文件中已有 %1 个给出回答</translation>
    </message>
    <message>
        <source>Delete these answers</source>
        <translation>删除这些回答</translation>
    </message>
    <message>
        <source>Export as CSV…</source>
        <translation>导出为 CSV…</translation>
    </message>
    <message>
        <source>How many files have answered</source>
        <translation>已回答的文件数</translation>
    </message>
    <message>
        <source>Looking for files…</source>
        <translation>正在查找文件…</translation>
    </message>
    <message>
        <source>Pause</source>
        <translation>暂停</translation>
    </message>
    <message>
        <source>Resume</source>
        <translation>继续</translation>
    </message>
    <message>
        <source>Retry failed</source>
        <translation>重试失败项</translation>
    </message>
    <message>
        <source>about %1 left</source>
        <translation>约剩 %1</translation>
    </message>
    <message>
        <source>paused</source>
        <translation>已暂停</translation>
    </message>
</context>
<context>
    <name>RunTable</name>
    <message>
        <source>Answer</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>File</source>
        <translation>文件</translation>
    </message>
    <message>
        <source>Found at</source>
        <translation>出处</translation>
    </message>
    <message>
        <source>Nothing found in this file.</source>
        <translation>在此文件中没有找到。</translation>
    </message>
    <message>
        <source>State</source>
        <translation>状态</translation>
    </message>
    <message>
        <source>This answer was cut off. The settings allow longer ones.</source>
        <translation>这个回答被截断。可在设置中允许更长的回答。</translation>
    </message>
    <message>
        <source>answered</source>
        <translation>已回答</translation>
    </message>
    <message>
        <source>cut off</source>
        <translation>未写完</translation>
    </message>
    <message>
        <source>failed</source>
        <translation>失败</translation>
    </message>
    <message>
        <source>reading</source>
        <translation>阅读中</translation>
    </message>
    <message>
        <source>searching</source>
        <translation>搜索中</translation>
    </message>
    <message>
        <source>waiting</source>
        <translation>等待中</translation>
    </message>
    <message>
        <source>writing</source>
        <translation>撰写中</translation>
    </message>
</context>
<context>
    <name>ScoreBar</name>
    <message>
        <source>Relevance: %1 % of the best passage</source>
        <translation>相关度：最佳段落的 %1%</translation>
    </message>
</context>
<context>
    <name>SelectionBar</name>
    <message>
        <source>%1 files selected</source>
        <translation>已选择 %1 个文件</translation>
    </message>
    <message>
        <source>1 file selected</source>
        <translation>已选择 1 个文件</translation>
    </message>
    <message>
        <source>Index again</source>
        <translation>重新索引</translation>
    </message>
    <message>
        <source>Remove…</source>
        <translation>移除…</translation>
    </message>
</context>
<context>
    <name>ServerLines</name>
    <message>
        <source>Address</source>
        <translation>地址</translation>
    </message>
    <message>
        <source>Address: %1</source>
        <translation>地址：%1</translation>
    </message>
    <message>
        <source>Applications that support the OpenAI API can connect here. A model's name alone answers from general knowledge, with “:files” after it from your files; “ragdoll” is the model that is chosen here.</source>
        <translation>支持 OpenAI API 的应用可以通过此地址连接。只写模型名称时，模型凭自身知识回答；在名称后加上“:files”则依据你的文件回答；“ragdoll”代表这里所选的模型。</translation>
    </message>
    <message>
        <source>Applications with the current key lose access until you give them the new one.</source>
        <translation>使用当前密钥的应用在换成新密钥之前将无法访问。</translation>
    </message>
    <message>
        <source>Copy the address</source>
        <translation>复制地址</translation>
    </message>
    <message>
        <source>Copy the key</source>
        <translation>复制密钥</translation>
    </message>
    <message>
        <source>Create a new key</source>
        <translation>创建新密钥</translation>
    </message>
    <message>
        <source>Create a new key?</source>
        <translation>创建新密钥？</translation>
    </message>
    <message>
        <source>Key</source>
        <translation>密钥</translation>
    </message>
    <message>
        <source>Key: %1</source>
        <translation>密钥：%1</translation>
    </message>
    <message>
        <source>Ragdoll tries again every few seconds.</source>
        <translation>Ragdoll 每隔几秒会再试一次。</translation>
    </message>
    <message>
        <source>The embedding model is listed as well, for applications that request embeddings.</source>
        <translation>嵌入模型也会列出，供请求嵌入向量的应用使用。</translation>
    </message>
</context>
<context>
    <name>SettingsPage</name>
    <message>
        <source>A reranker reads each of the best passages together with the question and puts those that answer it first. Results are better, but each search takes longer and uses more memory.</source>
        <translation>重排序模型会连同问题逐一阅读最佳段落，并把能回答问题的排在前面。结果更好，但每次搜索耗时更长，占用内存更多。</translation>
    </message>
    <message>
        <source>Answers</source>
        <translation>回答</translation>
    </message>
    <message>
        <source>Answers per question</source>
        <translation>每个问题的回答数</translation>
    </message>
    <message>
        <source>Appearance</source>
        <translation>外观</translation>
    </message>
    <message>
        <source>Change…</source>
        <translation>更改…</translation>
    </message>
    <message>
        <source>Choose…</source>
        <translation>选择…</translation>
    </message>
    <message>
        <source>Dark</source>
        <translation>深色</translation>
    </message>
    <message>
        <source>Downloading %1</source>
        <translation>正在下载 %1</translation>
    </message>
    <message>
        <source>Embedding model</source>
        <translation>嵌入模型</translation>
    </message>
    <message>
        <source>Finds passages by meaning; the built-in one understands only English. Another one re-indexes all files in the background.</source>
        <translation>按含义查找段落；内置模型只懂英语。更换模型后，所有文件会在后台重新索引。</translation>
    </message>
    <message>
        <source>Folder of models</source>
        <translation>模型文件夹</translation>
    </message>
    <message>
        <source>Language</source>
        <translation>语言</translation>
    </message>
    <message>
        <source>Languages</source>
        <translation>语言</translation>
    </message>
    <message>
        <source>Library</source>
        <translation>资料库</translation>
    </message>
    <message>
        <source>Light</source>
        <translation>浅色</translation>
    </message>
    <message>
        <source>Models</source>
        <translation>模型</translation>
    </message>
    <message>
        <source>New downloads are saved here. Models that you already have stay where they are.</source>
        <translation>新下载的模型保存在这里。已有的模型留在原处。</translation>
    </message>
    <message>
        <source>No font for Chinese, Japanese or Korean is installed; such text shows as boxes.</source>
        <translation>未安装中文、日文或韩文字体；这些文字会显示为方框。</translation>
    </message>
    <message>
        <source>Now: %1</source>
        <translation>当前：%1</translation>
    </message>
    <message>
        <source>Other applications</source>
        <translation>其他应用</translation>
    </message>
    <message>
        <source>Reading</source>
        <translation>阅读</translation>
    </message>
    <message>
        <source>Reranker</source>
        <translation>重排序模型</translation>
    </message>
    <message>
        <source>Sampling</source>
        <translation>采样</translation>
    </message>
    <message>
        <source>Search</source>
        <translation>搜索</translation>
    </message>
    <message>
        <source>Settings</source>
        <translation>设置</translation>
    </message>
    <message>
        <source>Show folder</source>
        <translation>显示文件夹</translation>
    </message>
    <message>
        <source>System default</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>Takes effect when Ragdoll is restarted.</source>
        <translation>重新启动 Ragdoll 后生效。</translation>
    </message>
    <message>
        <source>Text size</source>
        <translation>文字大小</translation>
    </message>
    <message>
        <source>The index and your chats are kept here and nowhere else. No account, no telemetry.</source>
        <translation>索引和对话只保存在这里，别处没有。无需账户，没有遥测。</translation>
    </message>
    <message>
        <source>The last reranking took %1.</source>
        <translation>上一次重排序用时 %1。</translation>
    </message>
    <message>
        <source>Theme</source>
        <translation>主题</translation>
    </message>
    <message>
        <source>Themes</source>
        <translation>主题</translation>
    </message>
    <message>
        <source>Use the default folder</source>
        <translation>使用默认文件夹</translation>
    </message>
    <message>
        <source>Written in parallel from one reading of the passages; the arrows below an answer switch between them. At temperature 0 all are the same.</source>
        <translation>段落只阅读一次，多个回答并行撰写；用回答下方的箭头切换。温度为 0 时全部相同。</translation>
    </message>
    <message>
        <source>Your data</source>
        <translation>你的数据</translation>
    </message>
    <message>
        <source>none</source>
        <translation>无</translation>
    </message>
    <message>
        <source>the built-in one</source>
        <translation>内置模型</translation>
    </message>
</context>
<context>
    <name>ShortcutsDialog</name>
    <message>
        <source>Close</source>
        <translation>关闭</translation>
    </message>
    <message>
        <source>Keyboard shortcuts</source>
        <translation>键盘快捷键</translation>
    </message>
</context>
<context>
    <name>SourceCard</name>
    <message>
        <source>Ask about this file</source>
        <translation>就此文件提问</translation>
    </message>
    <message>
        <source>It did not fit into what the model could read.</source>
        <translation>超出了模型的阅读篇幅，未能读到它。</translation>
    </message>
    <message>
        <source>Open in default app</source>
        <translation>用默认应用打开</translation>
    </message>
    <message>
        <source>Show in folder</source>
        <translation>在文件夹中显示</translation>
    </message>
    <message>
        <source>Show the page</source>
        <translation>显示页面</translation>
    </message>
    <message>
        <source>not read</source>
        <translation>未读</translation>
    </message>
</context>
<context>
    <name>SourcesModel</name>
    <message>
        <source>The passage was not found in the current version of this file.</source>
        <translation>在文件的当前版本中找不到该段落。</translation>
    </message>
    <message>
        <source>This document was removed from the library.</source>
        <translation>此文档已从资料库中移除。</translation>
    </message>
    <message>
        <source>This file cannot be reached right now.</source>
        <translation>目前无法访问此文件。</translation>
    </message>
</context>
<context>
    <name>SourcesPanel</name>
    <message>
        <source>Found while the answer was being written</source>
        <translation>撰写回答期间找到</translation>
    </message>
    <message>
        <source>Hide sources</source>
        <translation>隐藏来源</translation>
    </message>
    <message>
        <source>Sources</source>
        <translation>来源</translation>
    </message>
    <message>
        <source>The passages that an answer is based on appear here.</source>
        <translation>回答所依据的段落会显示在这里。</translation>
    </message>
    <message>
        <source>Your files are not searched for this answer.</source>
        <translation>这个回答不搜索你的文件。</translation>
    </message>
</context>
<context>
    <name>Spinner</name>
    <message>
        <source>Working</source>
        <translation>处理中</translation>
    </message>
</context>
<context>
    <name>StatusLine</name>
    <message>
        <source>Restart the engine</source>
        <translation>重新启动引擎</translation>
    </message>
    <message>
        <source>Starting…</source>
        <translation>正在启动…</translation>
    </message>
    <message>
        <source>The memory that Ragdoll uses right now</source>
        <translation>Ragdoll 当前占用的内存</translation>
    </message>
</context>
<context>
    <name>ThoughtsCard</name>
    <message>
        <source>Hidden</source>
        <translation>已折叠</translation>
    </message>
    <message>
        <source>Shown</source>
        <translation>已展开</translation>
    </message>
    <message>
        <source>Thought for %1</source>
        <translation>思考了 %1</translation>
    </message>
    <message>
        <source>Thoughts</source>
        <translation>思考过程</translation>
    </message>
</context>
<context>
    <name>TurnMenu</name>
    <message>
        <source>Continue in a new chat</source>
        <translation>在新对话中继续</translation>
    </message>
    <message>
        <source>Delete this question and its answer</source>
        <translation>删除此问题及其回答</translation>
    </message>
</context>
<context>
    <name>TurnView</name>
    <message>
        <source>%1 and %2 others</source>
        <translation>%1 和另外 %2 个文件</translation>
    </message>
    <message>
        <source>%1 and 1 other</source>
        <translation>%1 和另外 1 个文件</translation>
    </message>
    <message>
        <source>%1 answers were written; duplicates are shown once.</source>
        <translation>共撰写了 %1 个回答；相同的只显示一次。</translation>
    </message>
    <message>
        <source>%1 in total</source>
        <translation>共用时 %1</translation>
    </message>
    <message>
        <source>%1 of %2 prompt tokens from the cache</source>
        <translation>%2 个提示词词元中有 %1 个来自缓存</translation>
    </message>
    <message>
        <source>%1 tokens/s</source>
        <translation>%1 词元/秒</translation>
    </message>
    <message>
        <source>All %1 answers are the same. A higher temperature in the settings makes them differ.</source>
        <translation>%1 个回答完全相同。在设置中调高温度可使它们有所不同。</translation>
    </message>
    <message>
        <source>First token after %1</source>
        <translation>首个词元用时 %1</translation>
    </message>
    <message>
        <source>From your question: %1</source>
        <translation>取自你的问题：%1</translation>
    </message>
    <message>
        <source>Indexing is paused in the Library; %1 comes first…</source>
        <translation>资料库已暂停索引；恢复后先处理 %1…</translation>
    </message>
    <message>
        <source>More passages were found %1 times while writing, at %2 of the answer</source>
        <translation>撰写期间补充了 %1 次段落，在回答的 %2 处</translation>
    </message>
    <message>
        <source>More passages were found once while writing, at %2 of the answer</source>
        <translation>撰写期间补充了一次段落，在回答的 %2 处</translation>
    </message>
    <message>
        <source>Nothing new was found for this question in the files that had been indexed by then.</source>
        <translation>在当时已索引的文件中，没有为这个问题找到新的内容。</translation>
    </message>
    <message>
        <source>Nothing new was found in your files for this question.</source>
        <translation>在你的文件中没有为这个问题找到新的内容。</translation>
    </message>
    <message>
        <source>Nothing was found in the files that had been indexed by then; this answer is not based on them.</source>
        <translation>在当时已索引的文件中没有找到相关内容；这个回答并非以它们为依据。</translation>
    </message>
    <message>
        <source>Nothing was found in your files; this answer is not based on them.</source>
        <translation>在你的文件中没有找到相关内容；这个回答并非以它们为依据。</translation>
    </message>
    <message>
        <source>Reading %1 first…</source>
        <translation>正在先读 %1…</translation>
    </message>
    <message>
        <source>Searched %1 chunks in %2 files</source>
        <translation>搜索了 %2 个文件中的 %1 个文本块</translation>
    </message>
    <message>
        <source>Searched %1 chunks in 1 file</source>
        <translation>搜索了 1 个文件中的 %1 个文本块</translation>
    </message>
    <message>
        <source>Searched 1 chunk in 1 file</source>
        <translation>搜索了 1 个文件中的 1 个文本块</translation>
    </message>
    <message>
        <source>Searched: %1</source>
        <translation>搜索范围：%1</translation>
    </message>
    <message>
        <source>The answer was cut off. Continue it, or raise “Maximum answer length” in the settings for the next ones.</source>
        <translation>回答被截断。可以继续撰写，或在设置中调大“最大回答长度”供以后使用。</translation>
    </message>
    <message>
        <source>The answer was cut off. Raise “Maximum answer length” or “Context length” in the settings.</source>
        <translation>回答被截断。请在设置中调大“最大回答长度”或“上下文长度”。</translation>
    </message>
    <message>
        <source>Written by %1</source>
        <translation>由 %1 撰写</translation>
    </message>
    <message>
        <source>Your files were not searched for this answer.</source>
        <translation>这个回答没有搜索你的文件。</translation>
    </message>
    <message>
        <source>from %1 of %2 passages in %3 files</source>
        <translation>取自 %3 个文件、%2 个段落中的 %1 个</translation>
    </message>
    <message>
        <source>from %1 of %2 passages in 1 file</source>
        <translation>取自 1 个文件、%2 个段落中的 %1 个</translation>
    </message>
    <message>
        <source>read %1 of %2 passages of %3</source>
        <translation>读了 %3 的 %2 个段落中的 %1 个</translation>
    </message>
    <message>
        <source>read all of %3</source>
        <translation>通读了 %3</translation>
    </message>
    <message>
        <source>with passages of earlier answers</source>
        <translation>沿用先前回答的段落</translation>
    </message>
</context>
<context>
    <name>TurnWidget</name>
    <message>
        <source>Comparing %1 beams; the answer appears when it is complete…</source>
        <translation>正在比较 %1 个束；回答完成后显示…</translation>
    </message>
    <message>
        <source>Copy the answer</source>
        <translation>复制回答</translation>
    </message>
    <message>
        <source>Earlier branch</source>
        <translation>上一个分支</translation>
    </message>
    <message>
        <source>Later branch</source>
        <translation>下一个分支</translation>
    </message>
    <message>
        <source>More</source>
        <translation>更多</translation>
    </message>
    <message>
        <source>No model is chosen, so the answer is these quotes.</source>
        <translation>未选择模型，因此以这些引文作为回答。</translation>
    </message>
    <message>
        <source>No model is chosen, so the answer is this quote.</source>
        <translation>未选择模型，因此以这条引文作为回答。</translation>
    </message>
    <message>
        <source>Not found in the files that had been indexed by then. Ask again when all are indexed.</source>
        <translation>在当时已索引的文件中没有找到。请在所有文件索引完后再次提问。</translation>
    </message>
    <message>
        <source>Not found in your files.</source>
        <translation>在你的文件中没有找到。</translation>
    </message>
    <message>
        <source>Other ways to copy</source>
        <translation>其他复制方式</translation>
    </message>
    <message>
        <source>Reading %1 passages…</source>
        <translation>正在阅读 %1 个段落…</translation>
    </message>
    <message>
        <source>Reading 1 passage…</source>
        <translation>正在阅读 1 个段落…</translation>
    </message>
    <message>
        <source>Reading…</source>
        <translation>正在阅读…</translation>
    </message>
    <message>
        <source>Regenerate (Ctrl+R)</source>
        <translation>重新生成（Ctrl+R）</translation>
    </message>
    <message>
        <source>Search %1 instead</source>
        <translation>改为搜索“%1”</translation>
    </message>
    <message>
        <source>Search all of %1 instead</source>
        <translation>改为搜索“%1”中的全部文件</translation>
    </message>
    <message>
        <source>Search everything instead</source>
        <translation>改为搜索全部内容</translation>
    </message>
    <message>
        <source>Search your files instead</source>
        <translation>改为搜索你的文件</translation>
    </message>
    <message>
        <source>Searching…</source>
        <translation>正在搜索…</translation>
    </message>
    <message>
        <source>The answer is complete.</source>
        <translation>回答已完成。</translation>
    </message>
    <message>
        <source>The answer was stopped.</source>
        <translation>回答已停止。</translation>
    </message>
    <message>
        <source>The model ended without an answer. Ask again, or allow longer thoughts in the settings.</source>
        <translation>模型没有给出回答就结束了。请重新提问，或在设置中允许更长的思考。</translation>
    </message>
    <message>
        <source>The model wrote nothing.</source>
        <translation>模型没有写出任何内容。</translation>
    </message>
    <message>
        <source>The sources are the closest passages.</source>
        <translation>来源中列出的是最接近的段落。</translation>
    </message>
    <message>
        <source>Thinking…</source>
        <translation>正在思考…</translation>
    </message>
    <message>
        <source>Three more answers</source>
        <translation>再写三个回答</translation>
    </message>
    <message>
        <source>Waiting; %1 ahead of this one…</source>
        <translation>等待中，前面还有 %1 个…</translation>
    </message>
    <message>
        <source>Waiting…</source>
        <translation>等待中…</translation>
    </message>
    <message>
        <source>Writing %1 answers; this is the first…</source>
        <translation>正在撰写 %1 个回答，这是第一个…</translation>
    </message>
    <message>
        <source>Writing…</source>
        <translation>正在撰写…</translation>
    </message>
</context>
<context>
    <name>UndoBar</name>
    <message>
        <source>%1 chats deleted</source>
        <translation>已删除 %1 个对话</translation>
    </message>
    <message>
        <source>%1. Ctrl+Z restores it.</source>
        <translation>%1。按 Ctrl+Z 可恢复。</translation>
    </message>
    <message>
        <source>%1. Ctrl+Z restores them.</source>
        <translation>%1。按 Ctrl+Z 可恢复。</translation>
    </message>
    <message>
        <source>Chat deleted</source>
        <translation>对话已删除</translation>
    </message>
    <message>
        <source>Question and answer deleted</source>
        <translation>已删除问题和回答</translation>
    </message>
    <message>
        <source>Undo</source>
        <translation>撤销</translation>
    </message>
    <message>
        <source>“%1” deleted</source>
        <translation>已删除“%1”</translation>
    </message>
</context>
<context>
    <name>WaitingList</name>
    <message>
        <source>Ask next</source>
        <translation>接着提问</translation>
    </message>
    <message>
        <source>Ask now</source>
        <translation>立即提问</translation>
    </message>
    <message>
        <source>Asked after that</source>
        <translation>再之后提问</translation>
    </message>
    <message>
        <source>Asked next, when this answer is done</source>
        <translation>此回答完成后提问</translation>
    </message>
    <message>
        <source>Not asked, because the answer before it was not completed.</source>
        <translation>未提问，因为之前的回答没有完成。</translation>
    </message>
    <message>
        <source>Questions that are asked next</source>
        <translation>接下来要提的问题</translation>
    </message>
</context>
<context>
    <name>WaitingQuestions</name>
    <message>
        <source>%1 questions are waiting in this chat already.</source>
        <translation>此对话中已有 %1 个问题在等待。</translation>
    </message>
    <message>
        <source>Remove one of them, or wait for the next answer.</source>
        <translation>请移除其中一个，或等待下一个回答。</translation>
    </message>
</context>
<context>
    <name>_Lines</name>
    <message>
        <source>Code</source>
        <translation>代码</translation>
    </message>
</context>
<context>
    <name>_PageText</name>
    <message>
        <source>Text of the page</source>
        <translation>页面文字</translation>
    </message>
</context>
<context>
    <name>_Row</name>
    <message>
        <source>Edit</source>
        <translation>编辑</translation>
    </message>
    <message>
        <source>Edit the waiting question: %1</source>
        <translation>编辑等待中的问题：%1</translation>
    </message>
    <message>
        <source>Remove this question</source>
        <translation>移除此问题</translation>
    </message>
</context>
<context>
    <name>_Titles</name>
    <message>
        <source>An answer is being written</source>
        <translation>正在生成回答</translation>
    </message>
    <message>
        <source>Pinned</source>
        <translation>已置顶</translation>
    </message>
    <message>
        <source>Unsent text</source>
        <translation>有未发送的文字</translation>
    </message>
</context>
<context>
    <name>answer_copies</name>
    <message>
        <source>Sources</source>
        <translation>来源</translation>
    </message>
</context>
<context>
    <name>chat_exports</name>
    <message>
        <source>Ragdoll chats</source>
        <translation>Ragdoll 对话</translation>
    </message>
</context>
<context>
    <name>chat_imports</name>
    <message>
        <source>Check whether it can be opened.</source>
        <translation>请检查它能否打开。</translation>
    </message>
    <message>
        <source>Choose JSON files that Ragdoll has exported.</source>
        <translation>请选择由 Ragdoll 导出的 JSON 文件。</translation>
    </message>
    <message>
        <source>Free another %1 MiB on the disk with Ragdoll’s data, or import a few chats at a time.</source>
        <translation>请在存放 Ragdoll 数据的磁盘上再腾出 %1 MiB，或者每次只导入几个对话。</translation>
    </message>
    <message>
        <source>Import a few of them at a time.</source>
        <translation>请每次只导入其中几个。</translation>
    </message>
    <message>
        <source>Other chats are still being imported.</source>
        <translation>其他对话仍在导入中。</translation>
    </message>
    <message>
        <source>The chats could not be imported: %1.</source>
        <translation>无法导入对话：%1。</translation>
    </message>
    <message>
        <source>The disk has no room for these chats, so nothing was imported.</source>
        <translation>磁盘空间不足以保存这些对话，因此没有导入任何内容。</translation>
    </message>
    <message>
        <source>These files are too large together, so nothing was imported.</source>
        <translation>这些文件加在一起太大，因此没有导入任何内容。</translation>
    </message>
    <message>
        <source>Try again when they are there.</source>
        <translation>请在导入完成后重试。</translation>
    </message>
    <message>
        <source>“%1” cannot be read, so nothing was imported: %2.</source>
        <translation>无法读取“%1”，因此没有导入任何内容：%2。</translation>
    </message>
    <message>
        <source>“%1” holds no chats.</source>
        <translation>“%1”中没有对话。</translation>
    </message>
    <message>
        <source>“%1” is too large, so nothing was imported.</source>
        <translation>“%1”过大，因此没有导入任何内容。</translation>
    </message>
</context>
<context>
    <name>chats</name>
    <message>
        <source>%1 are write-protected, so %2.</source>
        <translation>%1处于写保护状态，%2。</translation>
    </message>
    <message>
        <source>%1 cannot be used just now (%3).</source>
        <translation>%1目前无法使用（%3）。</translation>
    </message>
    <message>
        <source>%1 on the disk are damaged (%3).</source>
        <translation>磁盘上的%1已损坏（%3）。</translation>
    </message>
    <message>
        <source>Allow writing there.</source>
        <translation>请允许写入。</translation>
    </message>
    <message>
        <source>Free some space, then ask again.</source>
        <translation>请腾出一些空间，然后重新提问。</translation>
    </message>
    <message>
        <source>Free some space, then try again.</source>
        <translation>请腾出一些空间，然后重试。</translation>
    </message>
    <message>
        <source>Free some space.</source>
        <translation>请腾出一些空间。</translation>
    </message>
    <message>
        <source>Free some space; what is shown stays.</source>
        <translation>请腾出一些空间；已显示的内容会保留。</translation>
    </message>
    <message>
        <source>Ragdoll was closed before this answer was complete.</source>
        <translation>这个回答尚未完成时 Ragdoll 就关闭了。</translation>
    </message>
    <message>
        <source>Restart Ragdoll: it saves what can be read.</source>
        <translation>请重新启动 Ragdoll，它会挽救还能读取的内容。</translation>
    </message>
    <message>
        <source>Start the newer Ragdoll, or update this one.</source>
        <translation>请启动较新版本的 Ragdoll，或更新此版本。</translation>
    </message>
    <message>
        <source>The chats</source>
        <translation>对话数据</translation>
    </message>
    <message>
        <source>The disk is full, so %2.</source>
        <translation>磁盘已满，%2。</translation>
    </message>
    <message>
        <source>The file of your chats could not be used (%1): %3 chats were saved from it. It is kept in %2.</source>
        <translation>对话文件无法使用（%1）：已从中挽救 %3 个对话。该文件保存在 %2。</translation>
    </message>
    <message>
        <source>The file of your chats could not be used (%1): 1 chat was saved from it. It is kept in %2.</source>
        <translation>对话文件无法使用（%1）：已从中挽救 1 个对话。该文件保存在 %2。</translation>
    </message>
    <message>
        <source>The presets</source>
        <translation>预设数据</translation>
    </message>
    <message>
        <source>The questions to every file</source>
        <translation>逐文件提问的数据</translation>
    </message>
    <message>
        <source>This chat is no longer there, so it cannot be brought back.</source>
        <translation>此对话已不存在，因此无法恢复。</translation>
    </message>
    <message>
        <source>This question is no longer there, so it cannot be brought back.</source>
        <translation>此问题已不存在，因此无法恢复。</translation>
    </message>
    <message>
        <source>Try again.</source>
        <translation>请重试。</translation>
    </message>
    <message>
        <source>Your chats were last used by a newer Ragdoll; this one cannot read them.</source>
        <translation>你的对话上次由较新版本的 Ragdoll 使用，此版本无法读取。</translation>
    </message>
    <message>
        <source>Your earlier chats could not be opened (%1). They are kept in %2.</source>
        <translation>先前的对话无法打开（%1）。它们保存在 %2。</translation>
    </message>
    <message>
        <source>nothing new can be saved of the chats</source>
        <translation>无法保存对话的新内容</translation>
    </message>
    <message>
        <source>they cannot be read</source>
        <translation>无法读取预设</translation>
    </message>
    <message>
        <source>this chat cannot be saved</source>
        <translation>无法保存此对话</translation>
    </message>
    <message>
        <source>this preset cannot be deleted</source>
        <translation>无法删除此预设</translation>
    </message>
    <message>
        <source>this preset cannot be saved</source>
        <translation>无法保存此预设</translation>
    </message>
    <message>
        <source>this question cannot be deleted</source>
        <translation>无法删除此问题</translation>
    </message>
    <message>
        <source>this question cannot be put to every file</source>
        <translation>无法逐文件提出此问题</translation>
    </message>
    <message>
        <source>what the files answer to this question cannot be saved</source>
        <translation>无法保存各文件对此问题的回答</translation>
    </message>
</context>
<context>
    <name>closing</name>
    <message>
        <source>Close anyway</source>
        <translation>仍然关闭</translation>
    </message>
    <message>
        <source>If you close Ragdoll now, the newest answers, chat settings or unsent text are lost.</source>
        <translation>如果现在关闭 Ragdoll，最新的回答、对话设置或尚未发送的文字将会丢失。</translation>
    </message>
    <message>
        <source>Not everything is saved yet.</source>
        <translation>尚未全部保存。</translation>
    </message>
</context>
<context>
    <name>commands</name>
    <message>
        <source>Add files…</source>
        <translation>添加文件…</translation>
    </message>
    <message>
        <source>Add folder…</source>
        <translation>添加文件夹…</translation>
    </message>
    <message>
        <source>Ask every file</source>
        <translation>逐文件提问</translation>
    </message>
    <message>
        <source>Attach files to this chat…</source>
        <translation>将文件附到此对话…</translation>
    </message>
    <message>
        <source>Dark theme</source>
        <translation>深色主题</translation>
    </message>
    <message>
        <source>Download a model…</source>
        <translation>下载模型…</translation>
    </message>
    <message>
        <source>Duplicate this chat</source>
        <translation>创建此对话的副本</translation>
    </message>
    <message>
        <source>Export this chat…</source>
        <translation>导出此对话…</translation>
    </message>
    <message>
        <source>Go to Library</source>
        <translation>前往资料库</translation>
    </message>
    <message>
        <source>Go to Memory</source>
        <translation>前往内存</translation>
    </message>
    <message>
        <source>Go to Models</source>
        <translation>前往模型</translation>
    </message>
    <message>
        <source>Import a folder of chats…</source>
        <translation>导入对话文件夹…</translation>
    </message>
    <message>
        <source>Import chats…</source>
        <translation>导入对话…</translation>
    </message>
    <message>
        <source>Instructions and settings of this chat…</source>
        <translation>此对话的指令和设置…</translation>
    </message>
    <message>
        <source>Light theme</source>
        <translation>浅色主题</translation>
    </message>
    <message>
        <source>New collection…</source>
        <translation>新建合集…</translation>
    </message>
    <message>
        <source>Open a GGUF file…</source>
        <translation>打开 GGUF 文件…</translation>
    </message>
    <message>
        <source>Restore %1 deleted chats</source>
        <translation>恢复 %1 个已删除的对话</translation>
    </message>
    <message>
        <source>Restore the deleted chat</source>
        <translation>恢复已删除的对话</translation>
    </message>
    <message>
        <source>Restore the deleted question of this chat</source>
        <translation>恢复此对话中已删除的问题</translation>
    </message>
    <message>
        <source>Restore “%1”</source>
        <translation>恢复“%1”</translation>
    </message>
    <message>
        <source>System theme</source>
        <translation>跟随系统的主题</translation>
    </message>
</context>
<context>
    <name>context</name>
    <message>
        <source>%1 of %2 tokens of the context were in use after the last answer</source>
        <translation>上一个回答之后，上下文的 %2 个词元中已使用 %1 个</translation>
    </message>
    <message>
        <source>A larger “Context length” in the settings can make room for more.</source>
        <translation>在设置中调大“上下文长度”可容纳更多内容。</translation>
    </message>
    <message>
        <source>Conversation: %1</source>
        <translation>对话内容：%1</translation>
    </message>
    <message>
        <source>Instructions: %1</source>
        <translation>指令：%1</translation>
    </message>
    <message>
        <source>Kept free for an answer: %1</source>
        <translation>为回答预留：%1</translation>
    </message>
    <message>
        <source>Last answer: %1</source>
        <translation>上一个回答：%1</translation>
    </message>
    <message>
        <source>Passages from your files: %1</source>
        <translation>来自你的文件的段落：%1</translation>
    </message>
    <message>
        <source>The oldest %1 questions are no longer read by the model.</source>
        <translation>模型不再读取最早的 %1 个问题。</translation>
    </message>
    <message>
        <source>The oldest question is no longer read by the model.</source>
        <translation>模型不再读取最早的问题。</translation>
    </message>
</context>
<context>
    <name>engine_client</name>
    <message>
        <source>A message from the engine could not be read.</source>
        <translation>无法读取引擎发来的消息。</translation>
    </message>
    <message>
        <source>Install Ragdoll again, so that both are from one release.</source>
        <translation>请重新安装 Ragdoll，使两者来自同一版本。</translation>
    </message>
    <message>
        <source>Install Ragdoll again.</source>
        <translation>请重新安装 Ragdoll。</translation>
    </message>
    <message>
        <source>It is restarting.</source>
        <translation>正在重新启动。</translation>
    </message>
    <message>
        <source>The engine could not be started.</source>
        <translation>引擎无法启动。</translation>
    </message>
    <message>
        <source>The engine could not be started: %1 cannot be run.</source>
        <translation>引擎无法启动：%1 不能运行。</translation>
    </message>
    <message>
        <source>The engine crashed (%1).</source>
        <translation>引擎崩溃（%1）。</translation>
    </message>
    <message>
        <source>The engine ended unexpectedly (exit code %1).</source>
        <translation>引擎意外退出（退出代码 %1）。</translation>
    </message>
    <message>
        <source>The engine has not answered for %1 seconds.</source>
        <translation>引擎已有 %1 秒没有响应。</translation>
    </message>
    <message>
        <source>The engine speaks version %1 of the protocol, this window version %2.</source>
        <translation>引擎使用的协议版本为 %1，而此窗口为 %2。</translation>
    </message>
    <message>
        <source>The engine was ended by the system or another program, most often because memory ran out.</source>
        <translation>引擎被系统或其他程序终止，通常是因为内存耗尽。</translation>
    </message>
    <message>
        <source>The usual reason is a model that does not fit into memory.</source>
        <translation>最常见的原因是内存装不下所选模型。</translation>
    </message>
    <message>
        <source>This happened %1 times in a short time, so the engine is not restarted automatically.</source>
        <translation>短时间内已发生 %1 次，因此不再自动重新启动引擎。</translation>
    </message>
</context>
<context>
    <name>engine_status</name>
    <message>
        <source>A question to every file is paused</source>
        <translation>逐文件提问已暂停</translation>
    </message>
    <message>
        <source>Answering %1 questions…</source>
        <translation>正在回答 %1 个问题…</translation>
    </message>
    <message>
        <source>Answering…</source>
        <translation>正在回答…</translation>
    </message>
    <message>
        <source>Asking every file, %1 %</source>
        <translation>正在逐文件提问，%1%</translation>
    </message>
    <message>
        <source>Asking every file…</source>
        <translation>正在逐文件提问…</translation>
    </message>
    <message>
        <source>Indexing %1 %</source>
        <translation>正在索引，%1%</translation>
    </message>
    <message>
        <source>Indexing is paused</source>
        <translation>索引已暂停</translation>
    </message>
    <message>
        <source>Indexing…</source>
        <translation>正在索引…</translation>
    </message>
    <message>
        <source>Loading %1, %2 %</source>
        <translation>正在载入 %1，%2%</translation>
    </message>
    <message>
        <source>Loading libraries…</source>
        <translation>正在载入程序库…</translation>
    </message>
    <message>
        <source>Loading the model…</source>
        <translation>正在载入模型…</translation>
    </message>
    <message>
        <source>Measuring the speed of the model, %1 %</source>
        <translation>正在测量模型的速度，%1%</translation>
    </message>
    <message>
        <source>Ready</source>
        <translation>就绪</translation>
    </message>
    <message>
        <source>Restarting the engine…</source>
        <translation>正在重新启动引擎…</translation>
    </message>
    <message>
        <source>Starting the engine…</source>
        <translation>正在启动引擎…</translation>
    </message>
    <message>
        <source>The engine is not running.</source>
        <translation>引擎未运行。</translation>
    </message>
    <message>
        <source>The engine is stopped.</source>
        <translation>引擎已停止。</translation>
    </message>
    <message>
        <source>the model</source>
        <translation>模型</translation>
    </message>
</context>
<context>
    <name>exchange</name>
    <message>
        <source>Choose JSON files that Ragdoll has exported.</source>
        <translation>请选择由 Ragdoll 导出的 JSON 文件。</translation>
    </message>
    <message>
        <source>Export the chats again, or leave this file out.</source>
        <translation>请重新导出对话，或不要选择此文件。</translation>
    </message>
    <message>
        <source>Update Ragdoll, then import it again.</source>
        <translation>请更新 Ragdoll，然后重新导入。</translation>
    </message>
    <message>
        <source>“%1” holds no chats of Ragdoll, so nothing was imported.</source>
        <translation>“%1”中没有 Ragdoll 的对话，因此没有导入任何内容。</translation>
    </message>
    <message>
        <source>“%1” is incomplete or damaged, so nothing was imported.</source>
        <translation>“%1”不完整或已损坏，因此没有导入任何内容。</translation>
    </message>
    <message>
        <source>“%1” was written by a newer Ragdoll, so nothing was imported.</source>
        <translation>“%1”由更新版本的 Ragdoll 写出，因此没有导入任何内容。</translation>
    </message>
</context>
<context>
    <name>export</name>
    <message>
        <source>Answered by %1.</source>
        <translation>由 %1 回答。</translation>
    </message>
    <message>
        <source>Instructions of this chat:</source>
        <translation>此对话的指令：</translation>
    </message>
    <message>
        <source>Not found in the files.</source>
        <translation>在文件中没有找到。</translation>
    </message>
    <message>
        <source>Settings of this chat: %1.</source>
        <translation>此对话的设置：%1。</translation>
    </message>
    <message>
        <source>Sources</source>
        <translation>来源</translation>
    </message>
    <message>
        <source>Stopped before the answer was complete.</source>
        <translation>回答尚未完成就已停止。</translation>
    </message>
    <message>
        <source>The answer was cut off: there was no room for more of it.</source>
        <translation>回答被截断：没有空间继续撰写。</translation>
    </message>
    <message>
        <source>The model ended without an answer.</source>
        <translation>模型没有给出回答就结束了。</translation>
    </message>
    <message>
        <source>The model wrote nothing.</source>
        <translation>模型没有写出任何内容。</translation>
    </message>
    <message>
        <source>This answer failed.</source>
        <translation>这个回答失败了。</translation>
    </message>
    <message>
        <source>This answer was still being written.</source>
        <translation>该回答当时仍在撰写中。</translation>
    </message>
    <message>
        <source>This answer was still to be written.</source>
        <translation>该回答当时尚未开始撰写。</translation>
    </message>
    <message>
        <source>at most %1 tokens an answer</source>
        <translation>每个回答最多 %1 词元</translation>
    </message>
    <message>
        <source>beams %1</source>
        <translation>束数 %1</translation>
    </message>
    <message>
        <source>min P %1</source>
        <translation>Min P %1</translation>
    </message>
    <message>
        <source>page %1</source>
        <translation>第 %1 页</translation>
    </message>
    <message>
        <source>temperature %1</source>
        <translation>温度 %1</translation>
    </message>
    <message>
        <source>top P %1</source>
        <translation>Top P %1</translation>
    </message>
</context>
<context>
    <name>figures</name>
    <message>
        <source>%1 h %2 min</source>
        <translation>%1 小时 %2 分</translation>
    </message>
    <message>
        <source>%1 min %2 s</source>
        <translation>%1 分 %2 秒</translation>
    </message>
    <message>
        <source>%1 ms</source>
        <translation>%1 毫秒</translation>
    </message>
    <message>
        <source>%1 s</source>
        <translation>%1 秒</translation>
    </message>
    <message>
        <source>p. %1</source>
        <translation>第 %1 页</translation>
    </message>
</context>
<context>
    <name>file_choices</name>
    <message>
        <source>All files (*)</source>
        <translation>所有文件 (*)</translation>
    </message>
    <message>
        <source>Chats (*.json)</source>
        <translation>对话 (*.json)</translation>
    </message>
    <message>
        <source>Choose a folder</source>
        <translation>选择文件夹</translation>
    </message>
    <message>
        <source>Choose files</source>
        <translation>选择文件</translation>
    </message>
    <message>
        <source>Export these answers</source>
        <translation>导出这些回答</translation>
    </message>
    <message>
        <source>Export this chat</source>
        <translation>导出此对话</translation>
    </message>
    <message>
        <source>GGUF models (*.gguf)</source>
        <translation>GGUF 模型 (*.gguf)</translation>
    </message>
    <message>
        <source>Import chats</source>
        <translation>导入对话</translation>
    </message>
    <message>
        <source>JSON, to import again (*.json)</source>
        <translation>JSON，可再次导入 (*.json)</translation>
    </message>
    <message>
        <source>Markdown, to read (*.md)</source>
        <translation>Markdown，便于阅读 (*.md)</translation>
    </message>
    <message>
        <source>Open GGUF files</source>
        <translation>打开 GGUF 文件</translation>
    </message>
</context>
<context>
    <name>filters</name>
    <message>
        <source>%1 files</source>
        <translation>%1 文件</translation>
    </message>
    <message>
        <source>Archives</source>
        <translation>压缩包</translation>
    </message>
    <message>
        <source>Code and data</source>
        <translation>代码与数据</translation>
    </message>
    <message>
        <source>E-books</source>
        <translation>电子书</translation>
    </message>
    <message>
        <source>E-mails</source>
        <translation>电子邮件</translation>
    </message>
    <message>
        <source>Last 30 days</source>
        <translation>最近 30 天</translation>
    </message>
    <message>
        <source>Last 7 days</source>
        <translation>最近 7 天</translation>
    </message>
    <message>
        <source>Last year</source>
        <translation>去年</translation>
    </message>
    <message>
        <source>Notes and plain text</source>
        <translation>笔记与纯文本</translation>
    </message>
    <message>
        <source>PDF files</source>
        <translation>PDF 文件</translation>
    </message>
    <message>
        <source>Pictures and scans</source>
        <translation>图片与扫描件</translation>
    </message>
    <message>
        <source>Presentations</source>
        <translation>演示文稿</translation>
    </message>
    <message>
        <source>Spreadsheets and tables</source>
        <translation>电子表格与数据表</translation>
    </message>
    <message>
        <source>This year</source>
        <translation>今年</translation>
    </message>
    <message>
        <source>Web pages</source>
        <translation>网页</translation>
    </message>
    <message>
        <source>Word documents</source>
        <translation>Word 文档</translation>
    </message>
    <message>
        <source>changed %1 to %2</source>
        <translation>%1 至 %2 修改</translation>
    </message>
    <message>
        <source>changed since %1</source>
        <translation>%1 以来修改</translation>
    </message>
    <message>
        <source>changed until %1</source>
        <translation>%1 及以前修改</translation>
    </message>
    <message>
        <source>in %1</source>
        <translation>在 %1 中</translation>
    </message>
    <message>
        <source>in %1 others</source>
        <translation>在另外 %1 处</translation>
    </message>
</context>
<context>
    <name>library</name>
    <message>
        <source>Enter password…</source>
        <translation>输入密码…</translation>
    </message>
    <message>
        <source>Failed</source>
        <translation>失败</translation>
    </message>
    <message>
        <source>How to read it…</source>
        <translation>如何读取…</translation>
    </message>
    <message>
        <source>Index next</source>
        <translation>优先索引</translation>
    </message>
    <message>
        <source>Indexed</source>
        <translation>已索引</translation>
    </message>
    <message>
        <source>Offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>Skipped</source>
        <translation>已跳过</translation>
    </message>
    <message>
        <source>Try again</source>
        <translation>重试</translation>
    </message>
    <message>
        <source>Waiting</source>
        <translation>等待中</translation>
    </message>
</context>
<context>
    <name>main</name>
    <message>
        <source>Chats of this session will not be kept. %1</source>
        <translation>本次的对话将不会保存。%1</translation>
    </message>
    <message>
        <source>Ragdoll cannot keep anything on this disk: %1.</source>
        <translation>Ragdoll 无法在此磁盘上保存任何内容：%1。</translation>
    </message>
    <message>
        <source>Ragdoll is already open, but does not answer. Close it, or wait a moment and try again.</source>
        <translation>Ragdoll 已经打开，但没有响应。请将其关闭，或稍等片刻再试。</translation>
    </message>
</context>
<context>
    <name>manner</name>
    <message>
        <source>No</source>
        <translation>否</translation>
    </message>
    <message>
        <source>Yes</source>
        <translation>是</translation>
    </message>
    <message>
        <source>no</source>
        <translation>否</translation>
    </message>
    <message>
        <source>none</source>
        <translation>无</translation>
    </message>
    <message>
        <source>yes</source>
        <translation>是</translation>
    </message>
</context>
<context>
    <name>memory</name>
    <message>
        <source>%1 %2</source>
        <translation>%1 层%2</translation>
    </message>
    <message>
        <source>%1 layers</source>
        <translation>%1 层</translation>
    </message>
    <message>
        <source>%1 parts</source>
        <translation>%1 个部分</translation>
    </message>
    <message>
        <source>%1 parts of “%2”</source>
        <translation>“%2”的 %1 个部分</translation>
    </message>
    <message>
        <source>%1: %2</source>
        <translation>%1：%2</translation>
    </message>
    <message>
        <source>Answers being written</source>
        <translation>正在撰写的回答</translation>
    </message>
    <message>
        <source>Answers paused for others</source>
        <translation>为其他回答暂停的次数</translation>
    </message>
    <message>
        <source>Answers that came in time</source>
        <translation>及时给出的回答</translation>
    </message>
    <message>
        <source>Context (KV cells)</source>
        <translation>上下文（KV 单元）</translation>
    </message>
    <message>
        <source>Draft tokens accepted</source>
        <translation>猜中的草稿词元</translation>
    </message>
    <message>
        <source>Embedder</source>
        <translation>嵌入模型</translation>
    </message>
    <message>
        <source>Everything else</source>
        <translation>其他程序</translation>
    </message>
    <message>
        <source>First token after, planned</source>
        <translation>首个词元用时（预计）</translation>
    </message>
    <message>
        <source>Index</source>
        <translation>索引</translation>
    </message>
    <message>
        <source>Index parts</source>
        <translation>索引分区</translation>
    </message>
    <message>
        <source>Index parts in memory</source>
        <translation>内存中的索引分区</translation>
    </message>
    <message>
        <source>Index parts in memory, of all</source>
        <translation>内存中的索引分区占比</translation>
    </message>
    <message>
        <source>Index parts read from disk</source>
        <translation>从磁盘读取的索引分区</translation>
    </message>
    <message>
        <source>KV cells free</source>
        <translation>空闲的 KV 单元</translation>
    </message>
    <message>
        <source>KV cells in use</source>
        <translation>使用中的 KV 单元</translation>
    </message>
    <message>
        <source>Layer %1: %2</source>
        <translation>第 %1 层：%2</translation>
    </message>
    <message>
        <source>Layers on the GPU</source>
        <translation>显卡上的层</translation>
    </message>
    <message>
        <source>Layers streamed</source>
        <translation>流式读取的层</translation>
    </message>
    <message>
        <source>Loaded models</source>
        <translation>已载入的模型</translation>
    </message>
    <message>
        <source>Model layers</source>
        <translation>模型层</translation>
    </message>
    <message>
        <source>Model switches</source>
        <translation>模型切换次数</translation>
    </message>
    <message>
        <source>Prompt cache</source>
        <translation>提示词缓存</translation>
    </message>
    <message>
        <source>Prompt cache in KV cells</source>
        <translation>KV 单元中的提示词缓存</translation>
    </message>
    <message>
        <source>Prompt tokens found in KV cells</source>
        <translation>KV 单元中找到的提示词词元</translation>
    </message>
    <message>
        <source>Questions in progress</source>
        <translation>处理中的问题</translation>
    </message>
    <message>
        <source>Ragdoll and buffers</source>
        <translation>Ragdoll 与缓冲区</translation>
    </message>
    <message>
        <source>Read from disk</source>
        <translation>磁盘读取</translation>
    </message>
    <message>
        <source>Share of all answers since the engine started that met generation.ttft_target_seconds and generation.tpot_target_seconds</source>
        <translation>自引擎启动以来的所有回答中，达到 generation.ttft_target_seconds 和 generation.tpot_target_seconds 目标的比例</translation>
    </message>
    <message>
        <source>Slots for parallel answers</source>
        <translation>并行回答的槽位</translation>
    </message>
    <message>
        <source>Slots of their ring buffer</source>
        <translation>流式读取的环形缓冲区槽位</translation>
    </message>
    <message>
        <source>Streamed layers</source>
        <translation>需流式读取的层</translation>
    </message>
    <message>
        <source>Time of a search</source>
        <translation>每次搜索用时</translation>
    </message>
    <message>
        <source>Tokens written</source>
        <translation>撰写的词元</translation>
    </message>
    <message>
        <source>Tokens written, planned</source>
        <translation>撰写的词元（预计）</translation>
    </message>
    <message>
        <source>Waiting models</source>
        <translation>等待中的模型</translation>
    </message>
    <message>
        <source>Written to disk</source>
        <translation>磁盘写入</translation>
    </message>
    <message>
        <source>being read</source>
        <translation>正在读取</translation>
    </message>
    <message>
        <source>came</source>
        <translation>已载入</translation>
    </message>
    <message>
        <source>grew</source>
        <translation>增大</translation>
    </message>
    <message>
        <source>in place</source>
        <translation>就位</translation>
    </message>
    <message>
        <source>layer %1</source>
        <translation>第 %1 层</translation>
    </message>
    <message>
        <source>leaving</source>
        <translation>正在移出</translation>
    </message>
    <message>
        <source>loading</source>
        <translation>载入中</translation>
    </message>
    <message>
        <source>memory-mapped</source>
        <translation>以文件映射在内存中</translation>
    </message>
    <message>
        <source>on the GPU</source>
        <translation>在显卡上</translation>
    </message>
    <message>
        <source>pinned in memory</source>
        <translation>锁定在内存中</translation>
    </message>
    <message>
        <source>released</source>
        <translation>已释放</translation>
    </message>
    <message>
        <source>reserved</source>
        <translation>预留</translation>
    </message>
    <message>
        <source>shrank</source>
        <translation>缩小</translation>
    </message>
    <message>
        <source>streamed</source>
        <translation>流式读取</translation>
    </message>
    <message>
        <source>streamed from disk</source>
        <translation>从磁盘流式读取</translation>
    </message>
    <message>
        <source>streaming</source>
        <translation>流式读取中</translation>
    </message>
    <message>
        <source>… each took</source>
        <translation>… 每次用时</translation>
    </message>
    <message>
        <source>… in memory</source>
        <translation>… 在内存中</translation>
    </message>
    <message>
        <source>… in the disk cache</source>
        <translation>… 在磁盘缓存中</translation>
    </message>
    <message>
        <source>… in the memory cache</source>
        <translation>… 在内存缓存中</translation>
    </message>
    <message>
        <source>… of which gaps, in memory</source>
        <translation>… 其中的空隙，在内存中</translation>
    </message>
    <message>
        <source>… on disk</source>
        <translation>… 在磁盘上</translation>
    </message>
    <message>
        <source>… plus for each part from disk</source>
        <translation>… 每个从磁盘读取的分区另加</translation>
    </message>
    <message>
        <source>… plus for each question</source>
        <translation>… 每个问题另加</translation>
    </message>
</context>
<context>
    <name>pasted</name>
    <message>
        <source>Pasted picture %1</source>
        <translation>粘贴的图片 %1</translation>
    </message>
    <message>
        <source>Pasted text</source>
        <translation>粘贴的文字</translation>
    </message>
</context>
<context>
    <name>reading_first</name>
    <message>
        <source>“%1” could not be read: %2 Remove it from the question, or index it again in the Library.</source>
        <translation>无法读取“%1”：%2 请将其从问题中移除，或在资料库中重新索引。</translation>
    </message>
    <message>
        <source>“%1” has not been read, because reading has stopped. Attach it again, then ask again.</source>
        <translation>“%1”还没有读，因为阅读已停止。请重新附上它，然后再次提问。</translation>
    </message>
</context>
<context>
    <name>run_writer</name>
    <message>
        <source>The answers so far are from %1, which is not available now. The rest will come from what is chosen instead.</source>
        <translation>目前的回答出自 %1，它现在不可用。其余的将由改选的模型回答。</translation>
    </message>
    <message>
        <source>To get all answers from the same model, delete this question and ask it again.</source>
        <translation>若要全部出自同一个模型，请删除此问题后重新提问。</translation>
    </message>
</context>
<context>
    <name>sentences</name>
    <message>
        <source>%1, %2</source>
        <translation>%1、%2</translation>
    </message>
</context>
<context>
    <name>settings</name>
    <message>
        <source> min</source>
        <translation> 分钟</translation>
    </message>
    <message>
        <source>0 always picks the most likely token; higher is more varied and less exact.</source>
        <translation>0 总是选择最可能的词元；数值越高越多样，但越不精确。</translation>
    </message>
    <message>
        <source>A long answer goes on with passages that fit what it says so far. Automatic: if that is quick.</source>
        <translation>长回答会依据与已写内容相符的段落继续撰写。自动：在很快就能完成时启用。</translation>
    </message>
    <message>
        <source>Above 1, recent tokens become less likely; 1 is off.</source>
        <translation>大于 1 时降低最近出现过的词元的概率；1 表示关闭。</translation>
    </message>
    <message>
        <source>Above 1, the likeliest of so many beams is shown once complete, the next as variants; 1 samples.</source>
        <translation>大于 1 时，完成后显示这么多个束中最可能的一个，其余作为变体；为 1 时采样。</translation>
    </message>
    <message>
        <source>Always</source>
        <translation>总是</translation>
    </message>
    <message>
        <source>An answer ends before any of these; separate them with commas, \n is a new line.</source>
        <translation>回答将要写出其中之一时便结束；以英文逗号分隔，\n 表示换行。</translation>
    </message>
    <message>
        <source>Answer in German, in three sentences at most.</source>
        <translation>用中文回答，最多三句话。</translation>
    </message>
    <message>
        <source>Automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>Avoid repetition (DRY)</source>
        <translation>避免重复（DRY）</translation>
    </message>
    <message>
        <source>Beams</source>
        <translation>束数</translation>
    </message>
    <message>
        <source>Below 1, drop tokens that are too surprising or too predictable; 1 drops none.</source>
        <translation>小于 1 时排除过于意外或过于可预料的词元；1 表示不排除。</translation>
    </message>
    <message>
        <source>Check all folders every</source>
        <translation>检查所有文件夹的间隔</translation>
    </message>
    <message>
        <source>Context length</source>
        <translation>上下文长度</translation>
    </message>
    <message>
        <source>Download models from</source>
        <translation>模型下载来源</translation>
    </message>
    <message>
        <source>Drop tokens less likely than this fraction of the most likely one; 0 drops none.</source>
        <translation>排除概率低于最可能词元此比例的词元；0 表示不排除。</translation>
    </message>
    <message>
        <source>Exclude top choices (XTC)</source>
        <translation>排除首选（XTC）</translation>
    </message>
    <message>
        <source>Files with more are skipped; 50,000 are about 20,000 pages. Index them again after a change.</source>
        <translation>超过此数的文件会被跳过；50,000 段约为 20,000 页。更改后请重新索引这些文件。</translation>
    </message>
    <message>
        <source>Finds what was missed: network folders, disconnected drives, changes while Ragdoll was closed.</source>
        <translation>找出遗漏的更改：网络文件夹、曾断开的磁盘，以及 Ragdoll 关闭期间的更改。</translation>
    </message>
    <message>
        <source>First results are read before the search ends. Automatic: on a GPU, or if a search takes long.</source>
        <translation>先找到的内容在搜索结束之前就开始阅读。自动：在由显卡计算时，或搜索耗时较长时启用。</translation>
    </message>
    <message>
        <source>For editors, note-taking apps and scripts on this computer; compatible with the OpenAI API.</source>
        <translation>供这台电脑上的编辑器、笔记应用和脚本使用；与 OpenAI API 兼容。</translation>
    </message>
    <message>
        <source>Frequency penalty</source>
        <translation>频率惩罚</translation>
    </message>
    <message>
        <source>How many recent tokens the penalties consider.</source>
        <translation>各项惩罚所考虑的最近词元数。</translation>
    </message>
    <message>
        <source>How often only the least likely of the likely tokens is kept; 0 is never.</source>
        <translation>以此频率只保留可能词元中最不可能的一个；0 表示从不。</translation>
    </message>
    <message>
        <source>In memory</source>
        <translation>在内存中</translation>
    </message>
    <message>
        <source>In memory is fastest and finds everything. On disk leaves memory to the model but may miss passages.</source>
        <translation>放在内存中最快且不会遗漏。放在磁盘上可把内存留给模型，但可能遗漏段落。</translation>
    </message>
    <message>
        <source>In tokens. Some models, such as R1, QwQ and gpt-oss, always think; at this limit they must answer.</source>
        <translation>单位为词元。有些模型（如 R1、QwQ 和 gpt-oss）总是先思考；达到此长度后必须开始回答。</translation>
    </message>
    <message>
        <source>In tokens; a token is about three quarters of a word.</source>
        <translation>单位为词元；一个词元约合四分之三个英文单词。</translation>
    </message>
    <message>
        <source>Index</source>
        <translation>索引</translation>
    </message>
    <message>
        <source>Instructions</source>
        <translation>指令</translation>
    </message>
    <message>
        <source>Keeps what the model computed for passages and chats, so that it need not read them again.</source>
        <translation>保留模型对段落和对话的计算结果，无需再次阅读。</translation>
    </message>
    <message>
        <source>Languages of scanned pages</source>
        <translation>扫描页的语言</translation>
    </message>
    <message>
        <source>Larger files are skipped, and so are those that take minutes or gigabytes of memory to read.</source>
        <translation>更大的文件会被跳过，读取需要数分钟或数 GB 内存的也一样。</translation>
    </message>
    <message>
        <source>Largest file</source>
        <translation>最大文件</translation>
    </message>
    <message>
        <source>Lets models with optional thinking, such as Qwen3, think first. Answers take longer.</source>
        <translation>让可选择思考的模型（如 Qwen3）先思考再回答。回答耗时更长。</translation>
    </message>
    <message>
        <source>Local API server</source>
        <translation>本地 API 服务器</translation>
    </message>
    <message>
        <source>Makes every recent token less likely by the same amount; below 0 more likely.</source>
        <translation>将最近出现过的词元的概率一律降低同样的幅度；小于 0 则提高。</translation>
    </message>
    <message>
        <source>Makes recent tokens less likely the more often they occurred; below 0 more likely.</source>
        <translation>最近出现得越多的词元，概率降得越低；小于 0 则提高。</translation>
    </message>
    <message>
        <source>Maximum answer length</source>
        <translation>最大回答长度</translation>
    </message>
    <message>
        <source>Maximum thinking length</source>
        <translation>最大思考长度</translation>
    </message>
    <message>
        <source>Memory for the index</source>
        <translation>索引的内存</translation>
    </message>
    <message>
        <source>Min P</source>
        <translation>Min P</translation>
    </message>
    <message>
        <source>More passages cover more files but take longer to read.</source>
        <translation>段落越多，涵盖的文件越多，但阅读时间也越长。</translation>
    </message>
    <message>
        <source>Most passages of a file</source>
        <translation>每个文件的最多段落数</translation>
    </message>
    <message>
        <source>Never</source>
        <translation>从不</translation>
    </message>
    <message>
        <source>On disk</source>
        <translation>在磁盘上</translation>
    </message>
    <message>
        <source>Otherwise, changes in linked folders are noticed at the next check of all folders.</source>
        <translation>关闭后，要到下次检查所有文件夹时才会发现关联文件夹中的更改。</translation>
    </message>
    <message>
        <source>Parallel answers</source>
        <translation>并行回答数</translation>
    </message>
    <message>
        <source>Passages per answer</source>
        <translation>每个回答的段落数</translation>
    </message>
    <message>
        <source>Penalizes repeating an earlier sequence, more with each token of it; 0 is off, 0.8 is usual.</source>
        <translation>对重复先前的序列施加惩罚，每多重复一个词元就越重；0 表示关闭，通常为 0.8。</translation>
    </message>
    <message>
        <source>Penalty window</source>
        <translation>惩罚窗口</translation>
    </message>
    <message>
        <source>Port</source>
        <translation>端口</translation>
    </message>
    <message>
        <source>Presence penalty</source>
        <translation>存在惩罚</translation>
    </message>
    <message>
        <source>Prompt cache in memory</source>
        <translation>内存中的提示词缓存</translation>
    </message>
    <message>
        <source>Prompt cache on disk</source>
        <translation>磁盘上的提示词缓存</translation>
    </message>
    <message>
        <source>Read while searching</source>
        <translation>边搜索边阅读</translation>
    </message>
    <message>
        <source>Repeat penalty</source>
        <translation>重复惩罚</translation>
    </message>
    <message>
        <source>Require the API key</source>
        <translation>必须提供 API 密钥</translation>
    </message>
    <message>
        <source>Sample from the K most likely tokens; 0 uses all.</source>
        <translation>从最可能的 K 个词元中采样；0 表示全部。</translation>
    </message>
    <message>
        <source>Sample from the most likely tokens that add up to this probability; 1 uses all.</source>
        <translation>从合计概率达到此值的最可能的词元中采样；1 表示全部。</translation>
    </message>
    <message>
        <source>Search again while writing</source>
        <translation>撰写时再次搜索</translation>
    </message>
    <message>
        <source>Stop strings</source>
        <translation>停止词</translation>
    </message>
    <message>
        <source>Survives closing Ragdoll. If full, what saves the least time is dropped first; 0 keeps nothing.</source>
        <translation>关闭 Ragdoll 后仍会保留。存满后，先移除最不省时间的内容；0 表示不保留。</translation>
    </message>
    <message>
        <source>Temperature</source>
        <translation>温度</translation>
    </message>
    <message>
        <source>Tesseract's names for them, for example eng, deu, chi_sim. Each must be installed with Tesseract.</source>
        <translation>使用 Tesseract 的名称，例如 eng、deu、chi_sim，以英文逗号分隔。每种语言都须随 Tesseract 安装。</translation>
    </message>
    <message>
        <source>The address of the Hugging Face hub or a mirror. It is contacted only when you search or download.</source>
        <translation>Hugging Face Hub 或其镜像的地址。只有在你搜索或下载时才会访问它。</translation>
    </message>
    <message>
        <source>The system prompt: what you expect of every answer. Ragdoll adds its own instructions.</source>
        <translation>系统提示词：你对每个回答的要求。Ragdoll 会加上自己的指令。</translation>
    </message>
    <message>
        <source>Think first</source>
        <translation>先思考</translation>
    </message>
    <message>
        <source>Tokens shared by earlier turns, passages, question and answer. Takes effect when a model is loaded.</source>
        <translation>先前的对话、段落、问题和回答共用的词元数。载入模型时生效。</translation>
    </message>
    <message>
        <source>Top K</source>
        <translation>Top K</translation>
    </message>
    <message>
        <source>Top P</source>
        <translation>Top P</translation>
    </message>
    <message>
        <source>Typical P</source>
        <translation>Typical P</translation>
    </message>
    <message>
        <source>Use filters in the question</source>
        <translation>使用问题中的筛选条件</translation>
    </message>
    <message>
        <source>Watch folders for changes</source>
        <translation>监视文件夹的更改</translation>
    </message>
    <message>
        <source>What does not fit is read from disk during a search, which takes longer but finds the same.</source>
        <translation>放不下的部分在搜索时从磁盘读取，耗时更长，但结果相同。</translation>
    </message>
    <message>
        <source>When to read ahead</source>
        <translation>何时提前阅读</translation>
    </message>
    <message>
        <source>When to search again</source>
        <translation>何时再次搜索</translation>
    </message>
    <message>
        <source>Where the index is</source>
        <translation>索引的位置</translation>
    </message>
    <message>
        <source>Without it, every program on this computer can ask about your files, even those of other users.</source>
        <translation>关闭后，这台电脑上的任何程序都能就你的文件提问，包括其他用户的程序。</translation>
    </message>
    <message>
        <source>Written at the same time if memory allows; others wait. Takes effect when a model is loaded.</source>
        <translation>内存允许时可同时撰写的回答数，其余等待。载入模型时生效。</translation>
    </message>
    <message>
        <source>automatic</source>
        <translation>自动</translation>
    </message>
    <message>
        <source>never</source>
        <translation>从不</translation>
    </message>
    <message>
        <source>nothing</source>
        <translation>无</translation>
    </message>
    <message>
        <source>system default</source>
        <translation>跟随系统</translation>
    </message>
    <message>
        <source>“In the PDFs changed in 2024” or a file name limits the search; the answer says so.</source>
        <translation>问题中出现文件名或“in the PDFs changed in 2024”这类英语说法时，会据此限定搜索范围；回答会注明。</translation>
    </message>
</context>
<context>
    <name>settings_file</name>
    <message>
        <source>%1 cannot be read (%2); defaults are used.</source>
        <translation>无法读取 %1（%2）；将使用默认值。</translation>
    </message>
    <message>
        <source>%1 cannot be written (%2).</source>
        <translation>无法写入 %1（%2）。</translation>
    </message>
    <message>
        <source>%1 has a wrong value (%2); the default is used until it is corrected.</source>
        <translation>%1 中有错误的值（%2）；改正之前使用默认值。</translation>
    </message>
</context>
<context>
    <name>standing</name>
    <message>
        <source>offline</source>
        <translation>离线</translation>
    </message>
    <message>
        <source>removed</source>
        <translation>已移除</translation>
    </message>
</context>
<context>
    <name>tiers</name>
    <message>
        <source>Disk</source>
        <translation>磁盘</translation>
    </message>
    <message>
        <source>Memory</source>
        <translation>内存</translation>
    </message>
</context>
<context>
    <name>uncaught</name>
    <message>
        <source>Details are in the log.</source>
        <translation>详情见日志。</translation>
    </message>
    <message>
        <source>Something went wrong inside the window: %1.</source>
        <translation>窗口内部出错：%1。</translation>
    </message>
</context>
</TS>
